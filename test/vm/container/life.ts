import assert from 'node:assert/strict';
import { snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { GuestVolume, type GuestVolumeOptions } from '../node/guest-volume.ts';

const sizeBytes = 64n << 20n;
const deadlineMs = 300_000;
/** On a busy host; alone it takes seconds. */
export const patienceMs = 600_000;
let count = 0;

export function volumeOf(node: GuestNode, options: Omit<GuestVolumeOptions, 'name'>): GuestVolume {
  const name = `contained-${count++}`;
  return new GuestVolume(node, volumeIdFor(nodeId, options.pool, name), { ...options, name });
}

/** A volume with a snapshot and what was made from it: made, used, grown, and removed. */
export async function liveThrough(node: GuestNode, options: Omit<GuestVolumeOptions, 'name'>): Promise<void> {
  const volume = volumeOf(node, options);
  await volume.create(sizeBytes);
  await volume.use();
  await leaveKeepsake(node, volume);
  await volume.expand(2n * sizeBytes);
  // Linear volumes are copied at rest.
  const isCopied = options.pool !== 'thin';
  if (isCopied) await volume.leave();
  await volume.snapshot(`of-${volume.name}`);
  if (!isCopied) await volume.leave();
  const snapshotId = snapshotIdFor(nodeId, `of-${volume.name}`);
  const restored = volumeOf(node, { content: options.content, pool: options.pool });
  await restored.create(3n * sizeBytes, snapshotId);
  await restored.use();
  await assertKeepsake(node, restored);
  await restored.leave();
  await restored.delete();
  await node.client.controller.DeleteSnapshot({ snapshot_id: snapshotId }, { deadlineMs });
  await volume.use();
  await assertKeepsake(node, volume);
  await volume.leave();
  await volume.delete();
}

/** Waits until only what pools have for themselves is active: what is wiped is, until it is gone. */
export async function nothingIsLeft(node: GuestNode): Promise<void> {
  await eventually(async () => {
    const names = (await node.vm.run('dmsetup info -c --noheadings -o name')).trim().split('\n');
    assert.deepEqual(
      names.filter((name) => !/holdfast--(pool|thin)|holdfast-disk-[-0-9a-f]{36}$/.test(name)),
      [],
    );
  }, patienceMs);
}
