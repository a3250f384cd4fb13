import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { VolumeContent } from '../../../src/volume/capability.ts';
import type { StepName } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { loopsOver } from '../kernel-sight.ts';
import { block, btrfs, ext4, type Operation, publishedWithData, used, xfs } from '../operation.ts';
import type { TestVolume } from '../test-volume.ts';

/** The calls of the Node service. */
export const nodeOperations: readonly Operation[] = [
  staging('NodeStageVolume', ext4, ['attach/device', 'note/write', 'stage/mount'], used),
  staging('NodeStageVolume block', block, ['attach/device', 'note/write', 'stage/device'], used),
  staging(
    'NodeStageVolume that grows ext4',
    ext4,
    ['attach/device', 'note/write', 'stage/grow', 'stage/mount'],
    outgrown,
  ),
  staging(
    'NodeStageVolume that grows xfs',
    xfs,
    ['attach/device', 'note/write', 'stage/grow', 'stage/mount'],
    outgrown,
  ),
  {
    ...staging(
      'NodeStageVolume that repairs ext4',
      ext4,
      [
        'attach/device',
        'repair/clone',
        'repair/check',
        'repair/keep',
        'repair/record',
        'repair/commit',
        'remove/purge',
        'note/write',
        'stage/mount',
      ],
      damaged,
    ),
    // What each try has kept.
    cleanUp: async (volume) => void (await volume.node.admin.purge(undefined)),
  },
  unstaging('NodeUnstageVolume', ext4, ['unstage/unmount', 'note/write']),
  unstaging('NodeUnstageVolume block', block, ['unstage/unmount', 'unstage/device', 'detach/device', 'note/write']),
  publishing('NodePublishVolume', ext4, false, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume, read-only', ext4, true, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume block', block, false, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume block, read-only', block, true, ['publish/target', 'publish/device', 'publish/mount']),
  unpublishing('NodeUnpublishVolume', ext4, false, ['unpublish/unmount', 'unpublish/target']),
  unpublishing('NodeUnpublishVolume block', block, false, ['unpublish/unmount', 'unpublish/target']),
  unpublishing('NodeUnpublishVolume block, read-only', block, true, ['unpublish/unmount', 'unpublish/target']),
  expansion('NodeExpandVolume xfs', xfs),
  expansion('NodeExpandVolume btrfs', btrfs),
  { ...expansion('NodeExpandVolume block', block), steps: ['grow/data', 'grow/record', 'grow/device'] },
];

function staging(
  name: string,
  content: VolumeContent,
  steps: readonly StepName[],
  prelude: Operation['prelude'],
): Operation {
  return {
    name,
    content,
    steps,
    prelude,
    run: (volume) => volume.stage(),
    async checkDone(volume) {
      await volume.publish();
      await volume.checkData();
      if (prelude === outgrown) await volume.checkGrown();
    },
    opposite: (volume) => volume.unstage(),
    checkUndone: async (volume) => assert.ok(!volume.isStaged()),
  };
}

function unstaging(name: string, content: VolumeContent, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    prelude: stagedWithData,
    run: (volume) => volume.unstage(),
    checkDone: async (volume) => assert.ok(!volume.isStaged()),
    opposite: (volume) => volume.stage(),
    async checkUndone(volume) {
      await volume.publish();
      await volume.checkData();
    },
  };
}

function publishing(name: string, content: VolumeContent, readonly: boolean, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    prelude: stagedWithData,
    run: (volume) => volume.publish(readonly),
    checkDone: (volume) => published(volume, readonly),
    opposite: (volume) => volume.unpublish(),
    checkUndone: unpublished,
  };
}

function unpublishing(name: string, content: VolumeContent, readonly: boolean, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    async prelude(volume) {
      await publishedWithData(volume);
      if (!readonly) return;
      await volume.unpublish();
      await volume.publish(readonly);
    },
    run: (volume) => volume.unpublish(),
    checkDone: unpublished,
    opposite: (volume) => volume.publish(readonly),
    checkUndone: (volume) => published(volume, readonly),
  };
}

function expansion(name: string, content: VolumeContent): Operation {
  return {
    name,
    content,
    steps: ['grow/data', 'grow/record', 'grow/device', 'expand/filesystem'],
    prelude: publishedWithData,
    async run(volume) {
      assert.equal(await volume.expandOnNode(), volume.grownBytes);
    },
    async checkDone(volume) {
      await volume.checkData();
      await volume.checkGrown();
    },
    opposite: async (volume) => void (await volume.expandOnNode(volume.sizeBytes)),
    checkUndone: (volume) => volume.checkData(),
  };
}

async function stagedWithData(volume: TestVolume): Promise<void> {
  await publishedWithData(volume);
  await volume.unpublish();
}

/** Its superblock says that it has errors, and it has. */
async function damaged(volume: TestVolume): Promise<void> {
  await used(volume);
  const image = join(volume.pool.root, 'volumes', volume.id, 'data');
  // What a device that lingers has in memory, nobody would see damaged.
  await eventually(() => assert.deepEqual(loopsOver(dirname(image)), []));
  for (const change of ['free_blocks_count 7', 'state 2']) {
    execFileSync('debugfs', ['-w', '-R', `set_super_value ${change}`, image], { stdio: 'ignore' });
  }
}

/** Larger than the filesystem in it. */
async function outgrown(volume: TestVolume): Promise<void> {
  await used(volume);
  await volume.expandByController();
}

async function published(volume: TestVolume, readonly: boolean): Promise<void> {
  await volume.checkData();
  if (readonly) await volume.checkReadonly();
}

async function unpublished(volume: TestVolume): Promise<void> {
  assert.ok(!existsSync(volume.targetPath), 'the target is still there');
}
