import assert from 'node:assert/strict';
import type { StepName } from '../../../src/volume/step.ts';
import { ext4, type Operation, publishedWithData, used, xfs } from '../operation.ts';
import { TestGroup, TestSnapshot } from '../test-snapshot.ts';
import { TestVolume } from '../test-volume.ts';

const cutting: readonly StepName[] = ['snapshot/directory', 'snapshot/take', 'snapshot/record', 'snapshot/commit'];
/** The same of one that is written to meanwhile. */
const cuttingInUse: readonly StepName[] = ['snapshot/ahead', ...cutting];
const cloning: readonly StepName[] = [
  'create/directory',
  'create/clone',
  'create/identity',
  'create/record',
  'create/commit',
];

/** The calls about snapshots, clones and groups. */
export const snapshotOperations: readonly Operation[] = [
  {
    ...snapshot('CreateSnapshot of a volume in use'),
    steps: cuttingInUse,
    prelude: publishedWithData,
    async checkDone(volume) {
      // Not left frozen; and what is written after the cut is no part of it.
      const snapshot = snapshotOf(volume);
      await volume.write();
      await snapshot.check();
    },
    checkUndone: (volume) => volume.write(),
  },
  {
    ...snapshot('CreateSnapshot by copying'),
    circumstances: { pools: ['directory'] },
    steps: cutting,
    prelude: used,
    checkDone: (volume) => snapshotOf(volume).check(),
  },
  {
    name: 'DeleteSnapshot',
    content: ext4,
    steps: ['snapshot/remove', 'remove/purge'],
    async prelude(volume) {
      await used(volume);
      await snapshotOf(volume).create();
    },
    run: (volume) => snapshotOf(volume).delete(),
    opposite: (volume) => snapshotOf(volume).create(),
    checkUndone: (volume) => snapshotOf(volume).check(),
    cleanUp: (volume) => snapshotOf(volume).delete(),
  },
  {
    ...clone('CreateVolume from a snapshot'),
    steps: cloning,
    async prelude(volume) {
      const source = sourceOf(volume);
      await used(source);
      await snapshotOf(source).create();
      volume.comesFrom(snapshotOf(source).origin);
    },
    async cleanUp(volume) {
      await snapshotOf(sourceOf(volume)).delete();
      await sourceOf(volume).delete();
    },
  },
  {
    ...clone('CreateVolume xfs from a volume in use'),
    content: xfs,
    steps: ['create/ahead', ...cloning],
    async prelude(volume) {
      const source = sourceOf(volume);
      await publishedWithData(source);
      volume.comesFrom({ source: { volume: { volume_id: source.id } }, checksum: source.checksum });
    },
    async cleanUp(volume) {
      const source = sourceOf(volume);
      await source.write();
      await source.unpublish();
      await source.unstage();
      await source.delete();
    },
  },
  {
    ...clone('CreateVolume from a volume by copying'),
    circumstances: { pools: ['directory'] },
    steps: cloning,
    async prelude(volume) {
      const source = sourceOf(volume);
      await used(source);
      volume.comesFrom({ source: { volume: { volume_id: source.id } }, checksum: source.checksum });
    },
    cleanUp: (volume) => sourceOf(volume).delete(),
  },
  {
    ...group('CreateVolumeGroupSnapshot', [...cuttingInUse, 'group/commit']),
    prelude: twoVolumes,
    run: (volume) => groupOf(volume).create(),
    checkDone: checkGroup,
    opposite: (volume) => groupOf(volume).delete(),
    checkUndone: checkNoMembers,
  },
  {
    ...group('CreateVolumeGroupSnapshot by copying', [...cutting, 'group/commit']),
    circumstances: { pools: ['directory'] },
    async prelude(volume) {
      await used(volume);
      await used(sourceOf(volume));
    },
    run: (volume) => groupOf(volume).create(),
    checkDone: (volume) => groupOf(volume).check(),
    opposite: (volume) => groupOf(volume).delete(),
    checkUndone: noSnapshots,
  },
  {
    ...group('DeleteVolumeGroupSnapshot', ['group/remove', 'snapshot/remove', 'remove/purge']),
    async prelude(volume) {
      await twoVolumes(volume);
      await groupOf(volume).create();
    },
    run: (volume) => groupOf(volume).delete(),
    checkDone: checkNoMembers,
    opposite: (volume) => groupOf(volume).create(),
    checkUndone: checkGroup,
  },
];

function snapshot(name: string) {
  return {
    name,
    content: ext4,
    run: (volume: TestVolume) => snapshotOf(volume).create(),
    opposite: (volume: TestVolume) => snapshotOf(volume).delete(),
    cleanUp: (volume: TestVolume) => snapshotOf(volume).delete(),
  };
}

function clone(name: string) {
  return {
    name,
    content: ext4,
    isThereAfter: ({ step, when }: { step: StepName; when: string }) => step === 'create/commit' && when === 'after',
    run: (volume: TestVolume) => volume.create(),
    opposite: (volume: TestVolume) => volume.delete(),
  };
}

function group(name: string, steps: readonly StepName[]) {
  return {
    name,
    content: ext4,
    steps,
    async cleanUp(volume: TestVolume) {
      await groupOf(volume).delete();
      await sourceOf(volume).delete();
    },
  };
}

/** One in use and frozen for the cut, and one that is not in use. */
async function twoVolumes(volume: TestVolume): Promise<void> {
  await publishedWithData(volume);
  await used(sourceOf(volume));
}

async function checkGroup(volume: TestVolume): Promise<void> {
  await groupOf(volume).check();
  await volume.write();
}

/** Members exist only with their group. */
async function checkNoMembers(volume: TestVolume): Promise<void> {
  await noSnapshots(volume);
  await volume.write();
}

async function noSnapshots(volume: TestVolume): Promise<void> {
  const { entries } = await volume.node.client.controller.ListSnapshots({});
  assert.deepEqual(entries, []);
}

const companions = new WeakMap<TestVolume, { source: TestVolume; snapshot: TestSnapshot; group: TestGroup }>();

/** Another volume, a snapshot and a group: what an operation needs of them besides the volume that it is about. */
function companionsOf(volume: TestVolume) {
  let found = companions.get(volume);
  if (found === undefined) {
    const source = new TestVolume(volume.node, `${volume.name}-source`, volume.content);
    const snapshot = new TestSnapshot(volume);
    found = { source, snapshot, group: new TestGroup(`${volume.name}-group`, [volume, source]) };
    companions.set(volume, found);
  }
  return found;
}

function sourceOf(volume: TestVolume): TestVolume {
  return companionsOf(volume).source;
}

function snapshotOf(volume: TestVolume): TestSnapshot {
  return companionsOf(volume).snapshot;
}

function groupOf(volume: TestVolume): TestGroup {
  return companionsOf(volume).group;
}
