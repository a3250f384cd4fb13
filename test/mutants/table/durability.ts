import type { Mutant } from '../mutant.ts';

const killer = 'test/durability/operations.test.ts';
const openings = 'test/durability/openings.test.ts';
const file = (name: string) => `src/pool/image/${name}.ts`;

/** Each step that puts something on the disk before somebody relies on it. */
export const durabilityMutants: readonly Mutant[] = [
  {
    name: 'fsync of a new image',
    file: file('image-maker'),
    text: '    await syncFile(this.#options.lane, image);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of a cloned image',
    file: file('image-maker'),
    text: '    await syncFile(lane, path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of an image that has grown',
    file: file('image-maker'),
    text: '    await syncFile(this.#options.lane, path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'O_SYNC of a record',
    file: file('durable-file'),
    text: 'const durably = O_WRONLY | O_CREAT | O_SYNC;',
    replacement: 'const durably = O_WRONLY | O_CREAT;',
    killer,
  },
  {
    name: 'sync of the directory after a record is replaced',
    file: file('durable-file'),
    text: '  await syncs.sync(lane, dirname(path));\n',
    replacement: '',
    killer,
  },
  {
    name: "sync of a new volume's draft",
    file: file('volumes'),
    text: 'writeRecord().then(() => syncs.sync(lane, directory)),',
    replacement: 'writeRecord(),',
    killer,
  },
  {
    name: "sync of a cloned volume's draft",
    file: file('volumes'),
    text: '        await syncs.sync(lane, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after create',
    file: file('volumes'),
    text: '        await syncs.sync(lane, layout.volumes);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after delete',
    file: file('deletion'),
    text: `afloat(lane, () => lane.run(() => rename(path, trashed))));
        await syncBoth(this.#parts);`,
    replacement: 'afloat(lane, () => lane.run(() => rename(path, trashed))));',
    killer,
  },
  {
    name: 'sync of the directories after trash restore',
    file: file('deletion'),
    text: `layout.volume(id)));
        await syncBoth(this.#parts);`,
    replacement: 'layout.volume(id)));',
    killer,
  },
  {
    name: 'the mark of what can be brought back goes durably before the rest',
    file: file('trash'),
    text: '        await syncFile(this.#lane, entry.path);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of snapshot data',
    file: file('snapshots'),
    text: "          await syncFile(lane, join(directory, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of a snapshot's draft",
    file: file('snapshots'),
    text: '          await syncs.sync(lane, directory);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a snapshot',
    file: file('snapshots'),
    text: '      await syncs.sync(lane, layout.snapshots);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directories after a snapshot is deleted',
    file: file('snapshots'),
    text: '          await finishAll([syncs.sync(lane, layout.snapshots), syncs.sync(lane, layout.trash)]);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a group is deleted',
    file: file('snapshots'),
    text: '        await syncs.sync(lane, layout.groups);\n',
    replacement: '',
    killer,
  },
  {
    name: 'a copy is durable as far as its note says',
    file: file('copy'),
    text: '      await syncFile(lane, data);\n',
    replacement: '',
    killer,
  },
  {
    name: 'fsync of the original that a repair keeps',
    file: file('repair'),
    text: "      await syncFile(lane, join(draft, 'data'));\n",
    replacement: '',
    killer,
  },
  {
    name: "sync of the draft of a repair's original",
    file: file('repair'),
    text: '      await syncs.sync(lane, draft);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after a repair',
    file: file('repair'),
    text: '      await syncs.sync(lane, layout.volume(id));\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the trash after a repair has kept the original',
    file: file('repair'),
    text: '      await syncs.sync(lane, layout.trash);\n',
    replacement: '',
    killer,
  },
  {
    name: 'sync of the directory after the backing file is made',
    file: file('backing-file'),
    text: '        await new DirectorySync().sync(lane, dirname(path));\n',
    replacement: '',
    killer: openings,
  },
];
