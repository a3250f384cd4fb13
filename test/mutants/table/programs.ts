import type { Mutant } from '../mutant.ts';

const run = { file: 'src/command/run.ts', killer: 'test/command/run.test.ts' } as const;
const output = { file: 'src/command/output.ts', killer: 'src/command/output.test.ts' } as const;

/** How programs of the host are run. */
export const programMutants: readonly Mutant[] = [
  {
    name: "a program does not get the driver's environment",
    ...run,
    text: '    extendEnv: false,\n',
    replacement: '',
  },
  {
    name: 'a program that must finish goes on when nobody reads what it says',
    ...run,
    text: `['sh', '-c', 'trap "" PIPE; exec "$@"', 'sh'] as const`,
    replacement: `['sh', '-c', 'exec "$@"', 'sh'] as const`,
  },
  {
    name: 'an error does not show the argument with a NUL in it',
    ...run,
    text: "  if ([file, ...rest].some((word) => word.includes('\\0'))) throw notStarted(program, 'EINVAL');\n",
    replacement: '',
  },
  {
    name: 'what a program leaves running is not waited for',
    ...run,
    text: '      for (const stream of streams) stream.destroy();\n',
    replacement: '',
  },
  {
    name: 'an output that was cut is not taken for all of it',
    ...run,
    text: "if (stdout.isCut && keep === 'all')",
    replacement: "if (stdout.isCut && keep !== 'all')",
  },
  {
    name: 'the memory for an output has bounds',
    ...output,
    text: 'Math.max(0, this.#usedBytes - this.#limitBytes)',
    replacement: '0',
  },
  {
    name: 'the memory for a line has bounds',
    ...output,
    text: '(this.#rest + first).slice(0, longestLine)',
    replacement: 'this.#rest + first',
  },
];
