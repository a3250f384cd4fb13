import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The heading under which a page says what of it was tried. */
const verdictHeading = '## What was tried';

/** What a page of the documentation tells its reader to type, and what it says of how far that was tried. */
export interface Page {
  readonly file: string;
  /** In the order in which they stand there, without comments. */
  readonly commands: readonly string[];
  /** Those that the page says were not tried. */
  readonly untried: readonly string[];
}

/** @param verdictIn the page that says what of this one was tried, if it is another one */
export function readPage(file: string, verdictIn = file): Page {
  const text = readFileSync(`${root}/${file}`, 'utf8');
  const commands = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = '']) => commandsIn(block));
  const verdict = sectionOf(readFileSync(`${root}/${verdictIn}`, 'utf8'), verdictHeading);
  const isAll = /^(None of the commands|Nothing) of this page/m.test(verdict);
  const listed = [...verdict.matchAll(/^- `(.*)`$/gm)].map(([, command = '']) => command);
  return { file, commands, untried: isAll ? commands : listed };
}

function sectionOf(text: string, heading: string): string {
  const [, after] = text.split(`\n${heading}\n`);
  if (after === undefined) throw new Error(`there is no section '${heading}'`);
  return after.split(/\n## /)[0] ?? '';
}

/** One a line; a line that ends with a backslash goes on. */
function commandsIn(block: string): string[] {
  return block
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/(^|\s+)# .*$/, '').trim())
    .filter((line) => line !== '');
}
