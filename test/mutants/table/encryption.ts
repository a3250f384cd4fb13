import type { Mutant } from '../mutant.ts';

const file = 'src/pool/layers/luks/named/first-use.ts';
const killer = 'test/pool/first-encryption.test.ts';

/** Encryption of disks that PersistentVolumes name: nothing that may be data is written over. */
export const encryptionMutants: readonly Mutant[] = [
  {
    name: 'a disk with a mark and data where its header would be is not encrypted again',
    ...{ file, killer },
    text: 'if (!isHeaderAlone(front)) return undefined;',
    replacement: '',
    only: 'where its header would be',
  },
  {
    name: 'a disk with a mark and data behind it is not encrypted again',
    ...{ file, killer },
    text: "if (!isBlankBehind || !(hasSignature || content.kind === 'blank')) return undefined;",
    replacement: "if (!(hasSignature || content.kind === 'blank')) return undefined;",
    only: 'data behind it',
  },
  {
    name: 'a disk with data between its ends is not encrypted',
    ...{ file, killer },
    text: ', isLookedAtAllOver: true }',
    replacement: ' }',
    only: 'in its middle',
  },
  {
    name: 'a header is made only where a mark of this work is',
    ...{ file, killer },
    text: '(now) => now.data === claim && now.names?.uuid === uuid',
    replacement: '() => true',
    only: 'meanwhile',
  },
  {
    name: 'the mark of an encryption goes before it is finished',
    ...{ file, killer },
    text: "await step('luks/unmark', () => changeMark(queue, devicePath, 'data', undefined));",
    replacement: '',
    only: 'is made once, if the disk is blank',
  },
  {
    name: 'a finished encryption has no mark',
    ...{ file, killer },
    text: "await step('luks/finish', () => changeMark(queue, devicePath, 'header', undefined));",
    replacement: '',
    only: 'is made once, if the disk is blank',
  },
  {
    name: 'a header without a mark is never made again, whatever its label says',
    ...{ file, killer },
    text: "return header !== undefined && names !== undefined ? 'formatted' : undefined;",
    replacement: "return header !== undefined || names?.label === '' ? 'formatted' : undefined;",
    only: 'is left as it is if another program',
  },
  {
    name: 'a header that was not finished is made again',
    ...{ file, killer },
    text: 'names !== undefined && ownIn(progress) === undefined)',
    replacement: 'names !== undefined)',
    only: 'its header is there, with another key',
  },
  {
    name: 'a disk that was made by another node meanwhile is not used',
    ...{ file, killer },
    text: '(now) => ownIn(now) === undefined && now.names?.uuid === uuid',
    replacement: '() => true',
    only: 'another node has made one since',
  },
  {
    name: 'nothing is encrypted for a use that only reads',
    ...{ file, killer },
    text: 'if (isReadonly) throw blankAndReadonly(handle, lower.devicePath);',
    replacement: '',
    only: 'that only reads: blank',
  },
  {
    name: 'a key of LUKS 1 is not changed',
    file: 'src/pool/layers/luks/rekey.ts',
    killer,
    text: 'if (await fits(previous)) throw notChangedHere(volume);',
    replacement: '',
    only: 'LUKS 1',
  },
  {
    name: 'a program below an encryption does not get its keys',
    file: 'src/pool/layers/luks/named/side.ts',
    killer: 'src/pool/layers/luks/named/side.test.ts',
    text: 'options.secrets?.without(keyFields)',
    replacement: 'options.secrets',
  },
  {
    name: 'a volume that this driver has made is never taken for a blank disk',
    file: 'src/pool/layers/luks/named/kind.ts',
    killer: 'src/pool/layers/luks/named/kind.test.ts',
    text: 'if (type !== undefined && parseVolumeId(handle) !== undefined) throw madeHere(handle);',
    replacement: '',
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
