import type { Mutant } from '../mutant.ts';

const file = 'src/pool/layers/luks/named/first-use.ts';
const killer = 'test/pool/first-encryption.test.ts';

/** Encryption of disks that PersistentVolumes name: nothing that may be data is written over. */
export const encryptionMutants: readonly Mutant[] = [
  {
    name: 'a disk with a mark and data where its header would be is not encrypted again',
    ...{ file, killer },
    text: 'if (!marked.equals(mark) || !isZeros(front)) return false;',
    replacement: 'if (!marked.equals(mark)) return false;',
  },
  {
    name: 'a disk with a mark and data at its end is not encrypted again',
    ...{ file, killer },
    text: 'lengthBytes: beginningBytes }))) return false;',
    replacement: 'lengthBytes: beginningBytes }))) return true;',
  },
  {
    name: 'the mark of an encryption goes before it is finished',
    ...{ file, killer },
    text: 'await writeAtData(queue, device, Buffer.alloc(mark.length));',
    replacement: '',
  },
  {
    name: 'a header that was not finished is made again',
    ...{ file, killer },
    text: 'label !== undefined && label !== unfinishedLabel',
    replacement: 'label !== undefined',
  },
  {
    name: 'an encrypted device is for one node at a time',
    file: 'src/pool/layers/luks/named/kind.ts',
    killer: 'src/pool/layers/luks/named/kind.test.ts',
    text: 'return { ...content, accessModes: singleNodeModes };',
    replacement: 'return content;',
  },
  {
    name: 'a disk that is encrypted is told by its attribute',
    file: 'src/node/mount/mount-volume.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    text: "what === 'crypto_LUKS' && isProvided === true",
    replacement: 'false',
  },
];
