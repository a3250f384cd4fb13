import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { Freezes } from '../../../src/pool/freeze/freezes.ts';
import { parseVolumeId } from '../../../src/volume/id.ts';
import type { StepName } from '../../../src/volume/step.ts';
import type { CrashNode } from '../crash-node.ts';
import type { PoolLocation } from '../crash-pool.ts';
import { interrupt } from '../interruption.ts';
import { block, ext4, publishedWithData } from '../operation.ts';
import { TestEphemeral } from '../test-ephemeral.ts';
import { TestVolume } from '../test-volume.ts';

/** A start of the driver that has something to do, and can be killed in it. */
export interface Opening {
  readonly name: string;
  readonly pool: PoolLocation;
  /** Every step that it passes. */
  readonly steps: readonly StepName[];
  /** Of a pool in a file, if the start is to find it larger than it was. */
  readonly sizes?: { readonly before: string; readonly now: string };
  /**
   * Leads to what the start is to find; the driver is killed after that. Without it, this is a pool's first start.
   * @returns what then looks at it and removes it
   */
  prelude?(node: CrashNode): Promise<() => Promise<void>>;
}

export const openings: readonly Opening[] = [
  {
    name: 'first start, file',
    pool: 'file',
    steps: ['open/draft', 'open/commit', 'open/mount', 'open/grow', 'open/identity', 'open/settle', 'open/remember'],
  },
  {
    name: 'first start, disk',
    pool: 'disk',
    steps: [
      'open/mark',
      'open/format',
      'open/unmark',
      'open/mount',
      'open/grow',
      'open/identity',
      'open/settle',
      'open/remember',
    ],
  },
  { name: 'first start, directory', pool: 'directory', steps: ['open/identity', 'open/remember'] },
  {
    name: 'start with a larger file',
    pool: 'file',
    sizes: { before: '1Gi', now: '4Gi' },
    steps: ['open/extend', 'open/resize', 'open/grow'],
    prelude: async (node) => (await publish(node)).finish,
  },
  {
    name: 'start with a frozen filesystem',
    pool: 'file',
    steps: ['open/grow', 'open/thaw'],
    async prelude(node) {
      const { finish, volume } = await publish(node);
      return await frozenByDriver(node, volume, finish);
    },
  },
  {
    // Killed before it froze, or after it had thawed: what is on the disk is the same.
    name: 'start with the note of a freeze that is not there',
    pool: 'file',
    steps: ['open/grow', 'open/thaw'],
    async prelude(node) {
      const { finish, volume } = await publish(node);
      const checked = await frozenByDriver(node, volume, finish);
      execFileSync('fsfreeze', ['--unfreeze', volume.targetPath]);
      return checked;
    },
  },
  {
    name: 'start with a filesystem that the driver froze, and that is mounted nowhere',
    pool: 'file',
    steps: ['open/grow', 'open/thaw'],
    async prelude(node) {
      const { finish, volume } = await publish(node);
      const checked = await frozenByDriver(node, volume, async () => {
        await mountedAgain(volume);
        await finish();
      });
      for (const path of [volume.targetPath, volume.stagingPath]) execFileSync('umount', [path]);
      return checked;
    },
  },
  {
    name: 'start with a filesystem that was frozen when it was unmounted',
    pool: 'file',
    steps: ['open/grow', 'unstage/thaw'],
    async prelude(node) {
      const { finish, volume } = await publish(node);
      execFileSync('fsfreeze', ['--freeze', volume.targetPath]);
      for (const path of [volume.targetPath, volume.stagingPath]) execFileSync('umount', [path]);
      return async () => {
        await mountedAgain(volume);
        await finish();
      };
    },
  },
  {
    name: 'start with a device that nobody sees',
    pool: 'file',
    steps: ['open/grow', 'detach/device'],
    async prelude(node) {
      const volume = new TestVolume(node, 'volume', block);
      await volume.create();
      await interrupt(node, { when: 'after', step: 'attach/device' }, () => volume.stage());
      return async () => {
        await volume.unstage();
        await volume.destroy();
      };
    },
  },
  {
    name: 'start with a half-made volume',
    pool: 'file',
    steps: ['open/grow', 'remove/purge'],
    async prelude(node) {
      const volume = new TestVolume(node, 'volume', ext4);
      await interrupt(node, { when: 'before', step: 'create/commit' }, () => volume.create());
      return async () => undefined;
    },
  },
  {
    name: 'start with an unmounted inline volume',
    pool: 'file',
    steps: ['open/grow', 'remove/trash', 'remove/purge'],
    async prelude(node) {
      const volume = new TestEphemeral(node, 'inline');
      await volume.publish();
      execFileSync('umount', [volume.targetPath]);
      return () => volume.unpublish();
    },
  },
];

/** Frozen as by a driver that is killed at that moment. @returns what looks whether its note is gone, and goes on */
async function frozenByDriver(
  node: CrashNode,
  volume: TestVolume,
  finish: () => Promise<void>,
): Promise<() => Promise<void>> {
  const id = parseVolumeId(volume.id);
  const poolName = node.pools[0]?.name;
  assert.ok(id && poolName);
  await new Freezes(node.dataDirectory, poolName).freeze(new DiskQueue('freeze', 1), id, volume.targetPath);
  const note = join(node.dataDirectory, 'frozen', `${poolName}.${id}`);
  assert.ok(existsSync(note));
  return async () => {
    // Left, it would end a backup's freeze at the next start.
    assert.equal(existsSync(note), false);
    await finish();
  };
}

/** What was unmounted behind the driver. */
async function mountedAgain(volume: TestVolume): Promise<void> {
  await volume.unpublish();
  await volume.unstage();
  await volume.stage();
  await volume.publish();
}

interface Published {
  readonly volume: TestVolume;
  readonly finish: () => Promise<void>;
}

/** A volume with data in it and in use; after the crash it is as it was, and takes writes. */
async function publish(node: CrashNode): Promise<Published> {
  const volume = new TestVolume(node, 'volume', ext4);
  await publishedWithData(volume);
  const finish = async () => {
    await volume.checkData();
    await volume.write();
    await volume.unpublish();
    await volume.unstage();
    await volume.destroy();
  };
  return { volume, finish };
}
