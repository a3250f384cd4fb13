import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Kubernetes puts its own words before ours, and shows the whole in a table. */
export const longestMessageCharacters = 200;

const page = readFileSync(fileURLToPath(new URL('../../docs/troubleshooting.md', import.meta.url)), 'utf8');

/** What only a kernel with dm-crypt comes to: test/vm/luks holds it to that. */
const openingTitle = 'An encrypted volume is not opened';
/** What only a disk of a network comes to. */
const networkTitle = 'An encrypted disk of a network is not opened';
const sections = page.split(/^## /m);
const quotesUnder = (title: string) => quotesIn(sections.find((each) => each.startsWith(`${title}\n`)) ?? '');

/** Messages about volumes whose encryption cannot be opened. */
export const openingQuotes: readonly string[] = quotesUnder(openingTitle);
const networkQuotes = quotesUnder(networkTitle);

/** The other messages that docs/troubleshooting.md quotes; what stands in angle brackets is different each time. */
export const quotes: readonly string[] = quotesIn(page).filter(
  (each) => !openingQuotes.includes(each) && !networkQuotes.includes(each),
);

function quotesIn(text: string): string[] {
  return [...text.matchAll(/^```text\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.trim().split('\n'));
}

/** Those of the quotes that this message is one of. */
export function quotesOf(message: string): string[] {
  return [...quotes, ...openingQuotes, ...networkQuotes].filter((quote) => patternOf(quote).test(message));
}

/** Whether any of the messages is quoted so. */
export function isSaid(quote: string, messages: readonly string[]): boolean {
  return messages.some((message) => patternOf(quote).test(message));
}

function patternOf(quote: string): RegExp {
  const parts = quote.split(/<[^>]+>/).map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('.+')}$`, 's');
}
