import type { Mutant } from '../mutant.ts';

const model = { file: 'src/pool/space/space.ts', killer: 'src/pool/space/space.test.ts' } as const;

/** What is promised can be written. */
export const spaceMutants: readonly Mutant[] = [
  {
    name: 'what volumes may still claim is not promised again',
    ...model,
    text: 'const outstandingBytes = use.provisionedBytes - use.ownedBytes + use.heldBytes;',
    replacement: 'const outstandingBytes = use.heldBytes;',
  },
  {
    name: 'what is held is not promised again',
    ...model,
    text: 'use.provisionedBytes - use.ownedBytes + use.heldBytes;',
    replacement: 'use.provisionedBytes - use.ownedBytes;',
  },
  {
    name: 'what is held is not written by somebody else',
    ...model,
    text: 'return use.freeBytes + use.reclaimableBytes - use.reserveBytes - use.heldBytes;',
    replacement: 'return use.freeBytes + use.reclaimableBytes - use.reserveBytes;',
  },
  {
    name: 'the reserve is not promised',
    ...model,
    text: 'use.reclaimableBytes - use.reserveBytes - outstandingBytes',
    replacement: 'use.reclaimableBytes - outstandingBytes',
  },
  {
    name: 'a thick volume asks whether its blocks are there',
    ...model,
    text: 'larger(0n, smaller(slack, writableBytes(use)))',
    replacement: 'larger(0n, slack)',
  },
  {
    name: 'shared blocks are not owned',
    ...model,
    text: 'smaller(sizeBytes, allocatedBytes - sharedBytes)',
    replacement: 'smaller(sizeBytes, allocatedBytes + 0n * sharedBytes)',
  },
  {
    name: 'what lies beyond the size of a volume is not owned',
    ...model,
    text: 'smaller(sizeBytes, allocatedBytes - sharedBytes)',
    replacement: 'larger(0n * sizeBytes, allocatedBytes - sharedBytes)',
  },
  {
    name: 'what can be promised is never negative',
    ...model,
    text: 'availableBytes: larger(0n, slack),',
    replacement: 'availableBytes: slack,',
  },
  {
    name: 'a backing file has no more room than its host',
    ...model,
    text: 'return larger(0n, inside.freeBytes - larger(0n, toBeTaken - inside.hostFreeBytes));',
    replacement: 'return larger(0n, inside.freeBytes - 0n * toBeTaken);',
  },
  {
    name: 'what gives nothing stays in the trash',
    ...model,
    text: '    if (each.givesBytes === 0n) continue;\n',
    replacement: '',
  },
  {
    name: 'no more goes from the trash than is needed',
    ...model,
    text: '    if (sum >= neededBytes) break;\n',
    replacement: '',
  },
  {
    name: 'what another one makes needless stays in the trash',
    ...model,
    text: '    chosen.splice(chosen.indexOf(each), 1);\n',
    replacement: '',
  },
  {
    name: 'enough goes from the trash',
    ...model,
    text: '    if (sum - each.givesBytes < neededBytes) break;\n',
    replacement: '',
  },
  {
    name: 'what is being wiped for its space is waited for',
    file: 'src/pool/space/space-ledger.ts',
    text: 'if (goingBytes > 0n && goingBytes >= needed) {',
    replacement: 'if (goingBytes > 0n && goingBytes < 0n) {',
    killer: 'test/pool/making-room.test.ts',
    only: 'lvm 2',
  },
  {
    name: 'what was destroyed for its space is free before more of the trash goes',
    file: 'src/pool/space/space-ledger.ts',
    text: '      await this.#options.trash.purgeEarly(toPurge);\n      await this.#observer.settle();\n',
    replacement: '      await this.#options.trash.purgeEarly(toPurge);\n',
    killer: 'test/pool/making-room.test.ts',
    only: 'core 3',
  },
  {
    name: 'a look at thousands of volumes has a few images open at a time',
    file: 'src/volume/flow/few-at-once.ts',
    text: 'Math.min(few, items.length)',
    replacement: 'items.length',
    killer: 'test/pool/many-volumes.test.ts',
  },
  {
    name: 'a start measures no pool to find inline volumes that were left',
    file: 'src/node/ephemeral/late-removals.ts',
    text: 'await pool.listEphemeral()',
    replacement: 'await pool.usage().then(({ volumes }) => volumes.map(({ record }) => record))',
    killer: 'test/grpc/ephemeral.test.ts',
  },
];
