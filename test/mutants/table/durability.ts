import type { Mutant } from '../mutant.ts';

const killer = 'test/durability/operations.test.ts';
const openings = 'test/durability/openings.test.ts';

/** Each step that puts something on the disk before somebody relies on it. */
export const durabilityMutants: readonly Mutant[] = [
  {
    name: 'fsync of a new image',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(this.#options.lane, image);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of a cloned image',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(lane, path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of an image that has grown',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(this.#options.lane, path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'O_SYNC of a record',
    file: 'src/pool/records/durable-file.ts',
    text: 'const durably = O_WRONLY | O_CREAT | O_SYNC;',
    replacement: 'const durably = O_WRONLY | O_CREAT;',
    killer,
  },
  {
    name: 'sync of the directory after a record is replaced',
    file: 'src/pool/records/durable-file.ts',
    text: '  await syncs.sync(lane, dirname(path));\n',
    replacement: '',
    killer,
  },
  {
    name: "sync of a new volume's draft",
    file: 'src/pool/catalog/volumes.ts',
    text: 'writeRecord().then(() => syncs.sync(lane, directory)),',
    replacement: 'writeRecord(),',
    killer,
  },
  {
    name: "sync of a cloned volume's draft",
    file: 'src/pool/catalog/volumes.ts',
    text: '        await syncs.sync(lane, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after create',
    file: 'src/pool/catalog/volumes.ts',
    text: '        await syncs.sync(lane, layout.volumes);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after delete',
    file: 'src/pool/catalog/deletion.ts',
    text: `afloat(lane, () => lane.run(() => rename(path, trashed))));
        await syncBoth(this.#parts);`,
    replacement: 'afloat(lane, () => lane.run(() => rename(path, trashed))));',
    killer,
  },
  {
    name: 'sync of the directories after trash restore',
    file: 'src/pool/catalog/deletion.ts',
    text: `layout.volume(id)));
        await syncBoth(this.#parts);`,
    replacement: 'layout.volume(id)));',
    killer,
  },
  {
    name: 'the mark of what can be brought back goes durably before the rest',
    file: 'src/pool/catalog/trash.ts',
    text: '        await syncFile(this.#lane, entry.path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of snapshot data',
    file: 'src/pool/catalog/snapshots.ts',
    text: "          await syncFile(lane, join(directory, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of a snapshot's draft",
    file: 'src/pool/catalog/snapshots.ts',
    text: '          await syncs.sync(lane, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a snapshot',
    file: 'src/pool/catalog/snapshots.ts',
    text: '      await syncs.sync(lane, layout.snapshots);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after a snapshot is deleted',
    file: 'src/pool/catalog/snapshots.ts',
    text: '          await finishAll([syncs.sync(lane, layout.snapshots), syncs.sync(lane, layout.trash)]);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a group is deleted',
    file: 'src/pool/catalog/snapshots.ts',
    text: '        await syncs.sync(lane, layout.groups);\n',
    replacement: '',
    killer,
  },
  {
    name: 'a copy is durable as far as its note says',
    file: 'src/pool/kinds/image/copy.ts',
    text: '      await syncFile(lane, data);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of the original that a repair keeps',
    file: 'src/pool/catalog/repair.ts',
    text: "      await syncFile(lane, join(draft, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of the draft of a repair's original",
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(lane, draft);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a repair',
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(lane, layout.volume(id));\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the trash after a repair has kept the original',
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(lane, layout.trash);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after the backing file is made',
    file: 'src/pool/location/backing-file.ts',
    text: '        await new DirectorySync().sync(lane, dirname(path));\n',
    replacement: '',
    killer: openings,
  },
];
