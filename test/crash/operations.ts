import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import type { VolumeContent } from '../../src/volume/capability.ts';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import type { TestVolume } from './test-volume.ts';

/** Something that a driver can be killed in. */
export interface Operation {
  readonly name: string;
  readonly content: VolumeContent;
  /** Every step that it passes, those behind its answer included. */
  readonly steps: readonly StepName[];
  /** Whether the volume is there after a crash at this point; undefined: after any. */
  readonly isThereAfter?: (point: CrashPoint) => boolean;
  /** Brings a volume that does not exist to where the operation begins. */
  prelude(volume: TestVolume): Promise<void>;
  /** The call itself; also its replay. */
  run(volume: TestVolume): Promise<void>;
  /** Asserts what must hold once the replay has succeeded. */
  checkDone(volume: TestVolume): Promise<void>;
  /** The call that takes it back (T02), or for one that nothing takes back, the same with less. */
  opposite(volume: TestVolume): Promise<void>;
  /** Asserts what must hold once the opposite call has succeeded. */
  checkUndone(volume: TestVolume): Promise<void>;
}

const ext4: VolumeContent = { type: 'mount', fsType: 'ext4' };
const xfs: VolumeContent = { type: 'mount', fsType: 'xfs' };
const btrfs: VolumeContent = { type: 'mount', fsType: 'btrfs' };
const block: VolumeContent = { type: 'block' };

export const operations: readonly Operation[] = [
  creation('CreateVolume', ext4, [
    'create/directory',
    'create/data',
    'create/format',
    'create/record',
    'create/commit',
  ]),
  creation('CreateVolume block', block, ['create/directory', 'create/data', 'create/record', 'create/commit']),
  {
    name: 'DeleteVolume',
    content: ext4,
    steps: ['remove/trash', 'remove/purge'],
    isThereAfter: ({ step, when }) => step === 'remove/trash' && when === 'before',
    prelude: used,
    run: (volume) => volume.delete(),
    checkDone: async () => undefined,
    opposite: (volume) => volume.create(),
    checkUndone: async () => undefined,
  },
  {
    name: 'ControllerExpandVolume, offline',
    content: ext4,
    steps: ['grow/data', 'grow/record'],
    prelude: used,
    run: expandByController,
    checkDone: grown,
    opposite: async (volume) => void (await volume.expandByController(volume.sizeBytes)),
    checkUndone: async () => undefined,
  },
  {
    name: 'ControllerExpandVolume block, online',
    content: block,
    steps: ['grow/data', 'grow/record', 'grow/device'],
    prelude: publishedWithData,
    run: expandByController,
    checkDone: grown,
    opposite: async (volume) => void (await volume.expandByController(volume.sizeBytes)),
    checkUndone: (volume) => volume.checkData(),
  },
  ...[xfs, btrfs].map((content) => nodeExpansion(content)),
  staging('NodeStageVolume', ext4, ['attach/loop', 'note/write', 'stage/mount'], used),
  staging('NodeStageVolume block', block, ['attach/loop', 'note/write', 'stage/device'], used),
  staging(
    'NodeStageVolume that grows ext4',
    ext4,
    ['attach/loop', 'note/write', 'stage/grow', 'stage/mount'],
    outgrown,
  ),
  staging('NodeStageVolume that grows xfs', xfs, ['attach/loop', 'note/write', 'stage/mount', 'stage/grow'], outgrown),
  unstaging('NodeUnstageVolume', ext4, ['unstage/unmount', 'note/write']),
  unstaging('NodeUnstageVolume block', block, ['unstage/unmount', 'unstage/device', 'detach/loop', 'note/write']),
  publishing('NodePublishVolume', ext4, false, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume, read-only', ext4, true, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume block', block, false, ['publish/target', 'publish/mount']),
  publishing('NodePublishVolume block, read-only', block, true, ['publish/target', 'attach/loop', 'publish/mount']),
  unpublishing('NodeUnpublishVolume', ext4, false, ['unpublish/unmount', 'unpublish/target']),
  unpublishing('NodeUnpublishVolume block', block, false, ['unpublish/unmount', 'unpublish/target']),
  unpublishing('NodeUnpublishVolume block, read-only', block, true, [
    'unpublish/unmount',
    'unpublish/target',
    'detach/loop',
  ]),
];

function creation(name: string, content: VolumeContent, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    isThereAfter: ({ step, when }) => step === 'create/commit' && when === 'after',
    prelude: async () => undefined,
    run: (volume) => volume.create(),
    checkDone: async () => undefined,
    opposite: (volume) => volume.delete(),
    checkUndone: async () => undefined,
  };
}

function nodeExpansion(content: VolumeContent & { readonly type: 'mount' }): Operation {
  return {
    name: `NodeExpandVolume ${content.fsType}`,
    content,
    steps: ['grow/data', 'grow/record', 'grow/device', 'expand/filesystem'],
    prelude: publishedWithData,
    async run(volume) {
      assert.equal(await volume.expandOnNode(), volume.grownBytes);
    },
    checkDone: grown,
    opposite: async (volume) => void (await volume.expandOnNode(volume.sizeBytes)),
    checkUndone: (volume) => volume.checkData(),
  };
}

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

function publishing(name: string, content: VolumeContent, readonly: boolean, steps: readonly StepName[]): Operation {
  return {
    name,
    content,
    steps,
    async prelude(volume) {
      await publishedWithData(volume);
      await volume.unpublish();
    },
    run: (volume) => volume.publish(readonly),
    checkDone: (volume) => published(volume, readonly),
    opposite: (volume) => volume.unpublish(),
    checkUndone: async (volume) => unpublished(volume),
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
    checkDone: async (volume) => unpublished(volume),
    opposite: (volume) => volume.publish(readonly),
    checkUndone: (volume) => published(volume, readonly),
  };
}

async function publishedWithData(volume: TestVolume): Promise<void> {
  await volume.create();
  await volume.stage();
  await volume.publish();
  await volume.write();
}

/** Exists, with data in it, and is used by nobody. */
async function used(volume: TestVolume): Promise<void> {
  await publishedWithData(volume);
  await volume.unpublish();
  await volume.unstage();
}

/** Larger than the filesystem in it. */
async function outgrown(volume: TestVolume): Promise<void> {
  await used(volume);
  await volume.expandByController();
}

async function expandByController(volume: TestVolume): Promise<void> {
  assert.equal(await volume.expandByController(), volume.grownBytes);
}

/** Whoever uses the volume has the room. */
async function grown(volume: TestVolume): Promise<void> {
  await volume.stage();
  await volume.publish();
  await volume.checkData();
  await volume.checkGrown();
}

async function published(volume: TestVolume, readonly: boolean): Promise<void> {
  await volume.checkData();
  if (readonly) await volume.checkReadonly();
}

function unpublished(volume: TestVolume): void {
  assert.ok(!existsSync(volume.targetPath), 'the target is still there');
}
