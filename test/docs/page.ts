import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What a page of the documentation tells its reader to type. */
export interface Page {
  readonly file: string;
  /** The first heading. */
  readonly title: string;
  /** In the order in which they stand there, without comments. */
  readonly commands: readonly string[];
}

export function readPage(file: string): Page {
  const text = readFileSync(`${root}/${file}`, 'utf8');
  const commands = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = '']) => commandsIn(block));
  return { file, title: /^# (.*)$/m.exec(text)?.[1] ?? file, commands };
}

/** One a line; a line that ends with a backslash goes on. */
function commandsIn(block: string): string[] {
  return block
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/(^|\s+)# .*$/, '').trim())
    .filter((line) => line !== '');
}
