import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loopNumber } from '../../src/kernel/block/loop-sysfs.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { statusOf } from '../../src/kernel/file/path.ts';
import { unmount } from '../../src/kernel/mount/mount.ts';
import { noteFormat } from '../../src/pool/kinds/iscsi/connections.ts';
import { ConnectionNotes } from '../../src/pool/network-disk/connection-notes.ts';
import { DiskUses } from '../../src/pool/network-disk/disk-uses.ts';
import type { NetworkDevice, Target } from '../../src/pool/network-disk/target.ts';
import { TargetState } from '../../src/pool/network-disk/target-state.ts';
import { endUnmount } from '../../src/pool/network-disk/unmount.ts';
import type { VolumeHandle } from '../../src/volume/handle.ts';
import { mountAt, mountNew } from '../kernel/mounting.ts';
import { startNamespace } from '../support/child.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 2);
const done = async () => undefined;

/** A target that does not answer, over a device of this machine. */
function silentTarget(device: NetworkDevice, calls: string[]): Target<never> {
  return {
    ...{ name: 'iqn.a', nameKey: 'iqn', noun: 'logical unit', lossKey: 'replacementTimeout' },
    ...{ connect: done, rescan: done, devicesOf: () => [device], devicesOfOurs: () => [device] },
    connections: () => [{ name: 'session1', isLive: false, isOurs: true }],
    disconnect: async () => void calls.push('disconnect'),
    notThere: () => assert.fail(),
    isTwice: () => assert.fail(),
  };
}

test('a filesystem that a container has mounted keeps its connections, though its target is silent', async () => {
  using scratch = new Scratch('unmount');
  const path = await mountNew(scratch.path, 'ext4');
  const source = (await mountAt(path))?.source ?? assert.fail();
  const { represents: device = assert.fail() } = await statusOf(queue, source);
  const calls: string[] = [];
  const target = silentTarget({ name: `loop${loopNumber(device)}`, devicePath: source, device, sizeBytes: 1n }, calls);
  const notes = await ConnectionNotes.open<never>(queue, scratch.join('notes'), 'iqn.a', {
    ...noteFormat,
    schema: noteFormat.schema.transform((note) => ({ ...note, connections: [] })),
  });
  const state = new TargetState(notes, new DiskUses());
  const options = { target, queue, beside: queue, looks: queue, state, log: quiet };
  const volume = { handle: 'a' as VolumeHandle, context: {} };
  await endUnmount(options, volume);
  await using _container = await startNamespace(path);
  await unmount(queue, path);
  await endUnmount(options, volume);
  assert.deepEqual(calls, []);
});
