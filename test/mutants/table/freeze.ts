import type { Mutant } from '../mutant.ts';

const killer = 'test/pool/freezer.test.ts';

/** Writers stand still for a cut, and go on whatever becomes of it. */
export const freezeMutants: readonly Mutant[] = [
  {
    name: 'no snapshot is accepted after the watchdog has thawed',
    file: 'src/pool/freeze/freezer.ts',
    text: `      late.signal.throwIfAborted();
      if (!wasHeld)`,
    replacement: '      if (!wasHeld && !late.signal.aborted)',
    killer,
  },
  {
    name: 'no snapshot is accepted after somebody else has thawed',
    file: 'src/pool/freeze/freezer.ts',
    text: '      if (!wasHeld)',
    replacement: '      if (wasHeld === undefined)',
    killer,
  },
  {
    name: 'filesystems are thawed when the work has failed',
    file: 'src/pool/freeze/freezer.ts',
    text: `      clearTimeout(watchdog);
      await standstill.end();`,
    replacement: '      clearTimeout(watchdog);',
    killer,
  },
  {
    name: 'what is frozen only after the end is thawed',
    file: 'src/pool/freeze/standstill.ts',
    text: '        if (this.#isOver) await this.end();\n',
    replacement: '',
    killer,
  },
];
