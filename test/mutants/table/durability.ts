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
    file: 'src/pool/kinds/image/drafts.ts',
    text: 'this.writeRecord(record).then(() => syncs.sync(queue, this.directory)),',
    replacement: 'this.writeRecord(record),',
    killer,
  },
  {
    name: "sync of a cloned volume's draft",
    file: 'src/pool/kinds/image/drafts.ts',
    text: '    await syncs.sync(queue, this.directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after create',
    file: 'src/pool/records/file-draft.ts',
    text: '    await syncs.sync(queue, dirname(this.place));\n',
    replacement:
      '    if (!this.place.startsWith(this.parts.layout.volumes)) await syncs.sync(queue, dirname(this.place));\n',
    killer,
  },
  {
    name: 'sync of the directories after delete',
    file: 'src/pool/records/file-removal.ts',
    text: `layout.volume(id), ref);
      await this.#syncWithTrash(layout.volumes);`,
    replacement: 'layout.volume(id), ref);',
    killer,
  },
  {
    name: 'sync of the directories after trash restore',
    file: 'src/pool/records/file-removal.ts',
    text: `layout.volume(record.id)));
    await this.#syncWithTrash(layout.volumes);`,
    replacement: 'layout.volume(record.id)));',
    killer,
  },
  {
    name: 'the mark of what can be brought back goes durably before the rest',
    file: 'src/pool/records/file-removal.ts',
    text: '    await syncFile(queue, ref);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of snapshot data',
    file: 'src/pool/records/file-draft.ts',
    text: '    await syncFile(queue, this.data);\n',
    replacement: '',
    killer,
  },
  {
    name: "sync of a snapshot's draft",
    file: 'src/pool/records/file-draft.ts',
    text: '    await syncs.sync(queue, this.directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a snapshot',
    file: 'src/pool/records/file-draft.ts',
    text: '    await syncs.sync(queue, dirname(this.place));\n',
    replacement:
      '    if (!this.place.startsWith(this.parts.layout.snapshots)) await syncs.sync(queue, dirname(this.place));\n',
    killer,
  },
  {
    name: 'sync of the directories after a snapshot is deleted',
    file: 'src/pool/records/file-removal.ts',
    text: '    await this.#syncWithTrash(layout.snapshots);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a group is deleted',
    file: 'src/pool/records/file-store.ts',
    text: '    await syncs.sync(queue, layout.groups);\n',
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
    file: 'src/pool/kinds/image/repairer.ts',
    text: "    await syncFile(queue, join(draft, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of the draft of a repair's original",
    file: 'src/pool/kinds/image/repairer.ts',
    text: '    await syncs.sync(queue, draft);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a repair',
    file: 'src/pool/kinds/image/repairer.ts',
    text: '    await syncs.sync(queue, layout.volume(id));\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the trash after a repair has kept the original',
    file: 'src/pool/kinds/image/repairer.ts',
    text: '    await syncs.sync(queue, layout.trash);\n',
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
