import type { Mutant } from '../mutant.ts';

/** Who may work on something at a time, and who may not. */
export const lockMutants: readonly Mutant[] = [
  {
    name: 'the lock on a pool is exclusive',
    file: 'src/kernel/process/lock.ts',
    text: '[descriptor, LOCK_EX | LOCK_NB]',
    replacement: '[descriptor, 1 | LOCK_NB]',
    killer: 'test/contract/image-home.test.ts',
  },
  {
    name: 'unequal calls on one volume wait for each other',
    file: 'src/volume/flow/object-queue.ts',
    text: 'const ahead = queue.filter((call) => !(entry.isShared && call.isShared));',
    replacement: 'const ahead: QueuedCall[] = [];',
    killer: 'src/volume/flow/object-queue.test.ts',
  },
  {
    name: 'only equal calls share a result',
    file: 'src/volume/flow/object-queue.ts',
    text: 'last?.what === what && last.fingerprint === fingerprint',
    replacement: 'last?.what === what',
    killer: 'src/volume/flow/object-queue.test.ts',
  },
  {
    name: 'a call that waited too long is refused',
    file: 'src/volume/flow/object-queue.ts',
    text: "=== 'late'",
    replacement: "=== ('never' as string)",
    killer: 'src/volume/flow/object-queue.test.ts',
  },
  {
    name: 'what many callers ask for is not answered from before they asked',
    file: 'src/volume/flow/shared-run.ts',
    text: '    this.#next = undefined;\n    const run',
    replacement: '    const run',
    killer: 'src/volume/flow/shared-run.test.ts',
  },
  {
    name: 'a look if an image is in use keeps no pod from it',
    file: 'src/pool/kinds/image/image-file.ts',
    text: "if (!isErrno(error, 'EAGAIN')) throw error;\n    }",
    replacement: 'throw error;\n    }',
    killer: 'test/pool/image-lease.test.ts',
  },
];
