import type { Mutant } from '../mutant.ts';

const killer = 'test/durability/operations.test.ts';
const openings = 'test/durability/openings.test.ts';

/** Each step that puts something on the disk before somebody relies on it. */
export const durabilityMutants: readonly Mutant[] = [
  {
    name: 'fsync of a new image',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(this.#options.queue, image);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of a cloned image',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(queue, path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of an image that has grown',
    file: 'src/pool/kinds/image/image-maker.ts',
    text: '    await syncFile(this.#options.queue, path);\n',
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
    text: '  await syncs.sync(queue, dirname(path));\n',
    replacement: '',
    killer,
  },
  {
    name: "sync of a new volume's draft",
    file: 'src/pool/catalog/volumes.ts',
    text: 'writeRecord().then(() => syncs.sync(queue, directory)),',
    replacement: 'writeRecord(),',
    killer,
  },
  {
    name: "sync of a cloned volume's draft",
    file: 'src/pool/catalog/volumes.ts',
    text: '        await syncs.sync(queue, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after create',
    file: 'src/pool/catalog/volumes.ts',
    text: '        await syncs.sync(queue, layout.volumes);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after delete',
    file: 'src/pool/catalog/deletion.ts',
    text: `withReserve(queue, () => queue.run(() => rename(path, trashed))));
        await syncBoth(this.#parts);`,
    replacement: 'withReserve(queue, () => queue.run(() => rename(path, trashed))));',
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
    text: '        await syncFile(this.#queue, entry.path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of snapshot data',
    file: 'src/pool/catalog/snapshots.ts',
    text: "          await syncFile(queue, join(directory, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of a snapshot's draft",
    file: 'src/pool/catalog/snapshots.ts',
    text: '          await syncs.sync(queue, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a snapshot',
    file: 'src/pool/catalog/snapshots.ts',
    text: '      await syncs.sync(queue, layout.snapshots);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after a snapshot is deleted',
    file: 'src/pool/catalog/snapshots.ts',
    text: '          await finishAll([syncs.sync(queue, layout.snapshots), syncs.sync(queue, layout.trash)]);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a group is deleted',
    file: 'src/pool/catalog/snapshots.ts',
    text: '        await syncs.sync(queue, layout.groups);\n',
    replacement: '',
    killer,
  },
  {
    name: 'a copy is durable as far as its note says',
    file: 'src/pool/kinds/image/copy.ts',
    text: '      await syncFile(queue, data);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of the original that a repair keeps',
    file: 'src/pool/catalog/repair.ts',
    text: "      await syncFile(queue, join(draft, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of the draft of a repair's original",
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(queue, draft);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a repair',
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(queue, layout.volume(id));\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the trash after a repair has kept the original',
    file: 'src/pool/catalog/repair.ts',
    text: '      await syncs.sync(queue, layout.trash);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after the backing file is made',
    file: 'src/pool/location/backing-file.ts',
    text: '        await new DirectorySync().sync(queue, dirname(path));\n',
    replacement: '',
    killer: openings,
  },
];
