import assert from 'node:assert/strict';
import type { StepName } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { crashDiskBytes } from '../crash-pool.ts';
import { blank, usesOf } from '../disk-sight.ts';
import { block, ext4, type Operation, publishedWithData, used } from '../operation.ts';
import type { TestVolume } from '../test-volume.ts';

const circumstances = { pools: ['disks'] } as const;
const making: readonly StepName[] = [
  'create/directory',
  'attach/device',
  'create/format',
  'detach/device',
  'create/commit',
];

/** What is done to volumes that are whole disks, where it is not the same as with others. */
export const diskOperations: readonly Operation[] = [
  {
    ...creation('CreateVolume on a blank disk'),
    steps: [...making, 'disk/label', 'disk/backup', 'disk/primary', 'disk/protect'],
    async prelude(volume) {
      await settled(volume);
      for (const path of volume.pool.disks) blank(path, crashDiskBytes);
    },
  },
  {
    name: 'DeleteVolume of a disk',
    content: block,
    circumstances,
    steps: ['remove/trash', 'remove/purge', 'disk/wipe', 'disk/free'],
    isThereAfter: ({ step, when }) => step === 'remove/trash' && when === 'before',
    prelude: used,
    run: (volume) => volume.delete(),
    async opposite(volume) {
      if (!(await volume.exists())) volume.forgetData();
      await volume.create();
    },
  },
  {
    name: 'NodeStageVolume of a disk',
    content: ext4,
    circumstances,
    steps: ['attach/device', 'note/write', 'stage/mount'],
    prelude: used,
    run: (volume) => volume.stage(),
    async checkDone(volume) {
      await volume.publish();
      await volume.checkData();
    },
    opposite: (volume) => volume.unstage(),
    checkUndone: async (volume) => assert.ok(!volume.isStaged()),
  },
  unstaging('NodeUnstageVolume of a disk, block', block, [
    'unstage/unmount',
    'unstage/device',
    'detach/device',
    'note/write',
  ]),
];

/** Nothing is on its way out any more. */
async function settled(volume: TestVolume): Promise<void> {
  const passing = ['draft', 'trash'];
  await eventually(() => assert.ok(usesOf(volume.pool.disks).every(({ state }) => !passing.includes(state))));
  volume.node.takeSteps();
}

function creation(name: string) {
  return {
    name,
    content: ext4,
    circumstances,
    isThereAfter: ({ step, when }: { step: StepName; when: string }) => step === 'create/commit' && when === 'after',
    run: (volume: TestVolume) => volume.create(),
    opposite: (volume: TestVolume) => volume.delete(),
  };
}

function unstaging(name: string, content: Operation['content'], steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    circumstances,
    steps,
    async prelude(volume) {
      await publishedWithData(volume);
      await volume.unpublish();
    },
    run: (volume) => volume.unstage(),
    checkDone: async (volume) => assert.ok(!volume.isStaged()),
    opposite: (volume) => volume.stage(),
    async checkUndone(volume) {
      await volume.publish();
      await volume.checkData();
    },
  };
}
