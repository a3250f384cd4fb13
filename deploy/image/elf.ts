import { readFileSync } from 'node:fs';
import { output } from './program.ts';

/** What a program or library asks the loader for. Nothing of it is run, so its architecture does not matter. */
export interface Linkage {
  /** The loader's path, of a program. */
  readonly interpreter: string | undefined;
  /** Names of libraries: `libc.so.6`. */
  readonly libraries: readonly string[];
}

/** @returns undefined for what is no ELF file: a script, say */
export function linkageOf(file: string): Linkage | undefined {
  if (readFileSync(file).subarray(0, 4).toString('latin1') !== '\x7fELF') return undefined;
  const words = output('readelf', ['--wide', '--dynamic', '--program-headers', file]);
  return {
    interpreter: /\[Requesting program interpreter: (.*)\]/.exec(words)?.[1],
    libraries: [...words.matchAll(/\(NEEDED\)\s+Shared library: \[(.*)\]/g)].flatMap(([, name]) => name ?? []),
  };
}
