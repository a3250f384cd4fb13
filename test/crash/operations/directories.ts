import assert from 'node:assert/strict';
import type { StepName } from '../../../src/volume/step.ts';
import type { CrashNode } from '../crash-node.ts';
import { LegacyVolume } from '../legacy-volume.ts';
import { directory, nothing, type Operation, publishedWithData, used } from '../operation.ts';
import { TestSnapshot } from '../test-snapshot.ts';
import { TestVolume } from '../test-volume.ts';

const circumstances = { pools: ['directories'] } as const;
const cloning: readonly StepName[] = [
  'create/directory',
  'create/clone',
  'create/identity',
  'create/record',
  'create/commit',
];

/** What is done to volumes that are directories, where it is not the same as with others. */
export const directoryOperations: readonly Operation[] = [
  {
    ...creation('CreateVolume directory'),
    steps: ['create/directory', 'create/data', 'create/record', 'create/commit'],
    prelude: nothing,
  },
  {
    name: 'DeleteVolume directory',
    content: directory,
    circumstances,
    steps: ['remove/trash', 'remove/purge'],
    isThereAfter: ({ step, when }) => step === 'remove/trash' && when === 'before',
    prelude: used,
    run: (volume) => volume.delete(),
    async opposite(volume) {
      if (!(await volume.exists())) volume.forgetData();
      await volume.create();
    },
  },
  {
    ...creation('CreateVolume directory from a volume'),
    steps: cloning,
    async prelude(volume) {
      const source = sourceOf(volume);
      await used(source);
      volume.comesFrom({ source: { volume: { volume_id: source.id } }, checksum: source.checksum });
    },
    cleanUp: (volume) => sourceOf(volume).delete(),
  },
  {
    name: 'CreateSnapshot of a directory',
    content: directory,
    circumstances,
    steps: ['snapshot/directory', 'snapshot/take', 'snapshot/record', 'snapshot/commit'],
    prelude: used,
    run: (volume) => snapshotOf(volume).create(),
    checkDone: (volume) => snapshotOf(volume).check(),
    opposite: (volume) => snapshotOf(volume).delete(),
    cleanUp: (volume) => snapshotOf(volume).delete(),
  },
  {
    ...adoption('adopt', ['adopt/draft', 'adopt/commit', 'adopt/move', 'adopt/settle']),
    isThereAfter: ({ step, when }) => step === 'adopt/settle' || (step === 'adopt/move' && when === 'after'),
    prelude: async (volume) => legacyOf(volume).make(),
    run: (volume) => volume.create(),
    checkDone: async (volume) => legacyOf(volume).checkGone(),
    opposite: async (volume) => legacyOf(volume).takeBack(),
    checkUndone: async (volume) => legacyOf(volume).checkThere(),
  },
  {
    ...adoption('release', ['release/mark', 'release/clear', 'release/move', 'remove/trash', 'remove/purge']),
    isThereAfter: ({ step, when }) => step.startsWith('release/') && !(step === 'release/move' && when === 'after'),
    async prelude(volume) {
      legacyOf(volume).make();
      await used(volume);
    },
    run: async (volume) => legacyOf(volume).takeBack(),
    checkDone: async (volume) => legacyOf(volume).checkThere(),
    opposite: (volume) => volume.create(),
    checkUndone: async (volume) => legacyOf(volume).checkGone(),
  },
  {
    name: 'ControllerExpandVolume directory',
    content: directory,
    circumstances,
    steps: ['grow/data', 'grow/record'],
    prelude: publishedWithData,
    run: async (volume) => assert.equal(await volume.expandByController(), volume.grownBytes),
    checkDone: (volume) => volume.checkData(),
    opposite: async (volume) => void (await volume.expandByController(volume.sizeBytes)),
    checkUndone: (volume) => volume.checkData(),
  },
];

function creation(name: string) {
  return {
    name,
    content: directory,
    circumstances,
    isThereAfter: ({ step, when }: { step: StepName; when: string }) => step === 'create/commit' && when === 'after',
    run: (volume: TestVolume) => volume.create(),
    opposite: (volume: TestVolume) => volume.delete(),
  };
}

function adoption(name: string, steps: readonly StepName[]) {
  const makeVolume = (node: CrashNode, volumeName: string) => new LegacyVolume(node, volumeName, directory);
  return { name, steps, content: directory, circumstances, makeVolume };
}

function legacyOf(volume: TestVolume): LegacyVolume {
  assert.ok(volume instanceof LegacyVolume);
  return volume;
}

const sources = new WeakMap<TestVolume, TestVolume>();
const snapshots = new WeakMap<TestVolume, TestSnapshot>();

function sourceOf(volume: TestVolume): TestVolume {
  const source = sources.get(volume) ?? new TestVolume(volume.node, `${volume.name}-source`, volume.content);
  sources.set(volume, source);
  return source;
}

function snapshotOf(volume: TestVolume): TestSnapshot {
  const snapshot = snapshots.get(volume) ?? new TestSnapshot(volume);
  snapshots.set(volume, snapshot);
  return snapshot;
}
