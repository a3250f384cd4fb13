import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Kubernetes puts its own words before ours, and shows the whole in a table. */
export const longestMessageCharacters = 200;

const page = readFileSync(fileURLToPath(new URL('../../docs/troubleshooting.md', import.meta.url)), 'utf8');

/** What only a kernel with dm-crypt comes to: test/vm/luks holds it to that. */
const openingTitle = '## An encrypted volume is not opened\n';
const [beforeOpening = '', fromOpening = ''] = page.split(openingTitle);
const opening = fromOpening.slice(0, fromOpening.indexOf('\n## '));
const afterOpening = fromOpening.slice(opening.length);

/** The messages that docs/troubleshooting.md quotes; what stands in angle brackets is different each time. */
export const quotes: readonly string[] = [...quotesIn(beforeOpening), ...quotesIn(afterOpening)];

/** Those of them for volumes whose encryption cannot be opened. */
export const openingQuotes: readonly string[] = quotesIn(opening);

function quotesIn(text: string): string[] {
  return [...text.matchAll(/^```text\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.trim().split('\n'));
}

/** Those of the quotes that this message is one of. */
export function quotesOf(message: string): string[] {
  return [...quotes, ...openingQuotes].filter((quote) => patternOf(quote).test(message));
}

/** Whether any of the messages is quoted so. */
export function isSaid(quote: string, messages: readonly string[]): boolean {
  return messages.some((message) => patternOf(quote).test(message));
}

function patternOf(quote: string): RegExp {
  const parts = quote.split(/<[^>]+>/).map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('.+')}$`, 's');
}
