import type { Mutant } from '../mutant.ts';

/** What is looked at before something is done, or said. */
export const checkMutants: readonly Mutant[] = [
  {
    name: 'a disk that somebody had for himself is looked at again before it is formatted',
    file: 'src/pool/location/format.ts',
    text: '    found = await examine(location, device);\n',
    replacement: '',
    killer: 'test/pool/format.test.ts',
    only: 'come to its end',
  },
  {
    name: 'a volume in use is not deleted',
    file: 'src/pool/catalog/deletion.ts',
    text: '    await refuseInUse(backend.attacher, id);\n',
    replacement: '',
    killer: 'test/grpc/controller-delete.test.ts',
  },
  {
    name: 'trash restore asks for the space',
    file: 'src/pool/catalog/deletion.ts',
    text: '      using _space = await space.holdAgain(entry);\n',
    replacement: '',
    killer: 'test/contract/image.test.ts',
    only: 'backing file.*restored asks for its space',
  },
  {
    name: 'the disk that is mounted holds the pool that was there',
    file: 'src/pool/records/pool-file.ts',
    text: 'if (knownId !== undefined && knownId !== opened.id) {',
    replacement: 'if (knownId === opened.id && knownId !== opened.id) {',
    killer: 'test/contract/image-home.test.ts',
  },
  {
    name: 'no new pool where there was one',
    file: 'src/pool/records/pool-file.ts',
    text: '    await refuseUnlessNew(options, knownId, markerPath);\n',
    replacement: '',
    killer: 'test/contract/image-home.test.ts',
  },
  {
    name: "no pool among somebody's files",
    file: 'src/pool/records/pool-file.ts',
    text: '  if (foreign !== undefined) {',
    replacement: "  if (foreign === '') {",
    killer: 'test/contract/image-home.test.ts',
  },
  {
    name: 'a path of a target is followed through no symlink',
    file: 'src/kernel/file/path.ts',
    text: 'const resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;',
    replacement: 'const resolve = RESOLVE_BENEATH;',
    killer: 'test/grpc/node-target.test.ts',
  },
  {
    name: 'a filesystem that says it has errors is not mounted',
    file: 'src/node/mount/mount-volume.ts',
    text: 'if (hasErrors(fsType, superblock)) throw',
    replacement: 'if (!superblock) throw',
    killer: 'test/grpc/repair.test.ts',
  },
  {
    name: 'a note of another staging path is kept',
    file: 'src/node/stage/unstage.ts',
    text: '  if (note !== undefined && note.path !== staging.path) return;\n',
    replacement: '',
    killer: 'test/grpc/node-unstage.test.ts',
  },
  {
    name: 'T is 1000^4 and not 1024^4',
    file: 'src/volume/size.ts',
    text: '  T: 10n ** 12n,',
    replacement: '  T: 1n << 40n,',
    killer: 'src/volume/size.test.ts',
  },
  {
    name: 'the oldest call is the first that began',
    file: 'src/metrics/call-metrics.ts',
    text: 'const [oldestMs = nowMs] = this.#running.values();',
    replacement: 'const [oldestMs = nowMs] = [...this.#running.values()].reverse();',
    killer: 'src/metrics/call-metrics.test.ts',
  },
];
