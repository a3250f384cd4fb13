import assert from 'node:assert/strict';
import { checksumOf, contentOf } from '../machine/content.ts';
import type { GuestNode } from '../node/guest-node.ts';
import type { GuestVolume } from '../node/guest-volume.ts';

const seed = 1;
const sizeBytes = 300_000;
const checksum = checksumOf(contentOf(seed, sizeBytes));

/** Writes something that has to be there after whatever happens: it is fsynced. */
export async function leaveKeepsake(node: GuestNode, volume: GuestVolume): Promise<void> {
  await node.vm.task('write', { ...placeIn(volume), seed, sizeBytes });
}

/** Asserts that it is there, as it was, on the disk. */
export async function assertKeepsake(node: GuestNode, volume: GuestVolume): Promise<void> {
  await node.vm.run('echo 3 >/proc/sys/vm/drop_caches');
  const found = await node.vm.task('checksums', [{ ...placeIn(volume), sizeBytes }]);
  assert.deepEqual(found, [checksum], `what was fsynced in a volume with ${volume.content} is not there any more`);
}

/** Takes volumes that are not in use into use again, each with its keepsake, and removes them. */
export async function assertOutlived(node: GuestNode, volumes: readonly GuestVolume[]): Promise<void> {
  for (const volume of volumes) {
    await volume.use();
    await assertKeepsake(node, volume);
    await volume.leave();
    await volume.delete();
  }
}

function placeIn({ content, targetPath }: GuestVolume): { readonly path: string; readonly offsetBytes?: number } {
  return content === 'block' ? { path: targetPath, offsetBytes: 0 } : { path: `${targetPath}/keepsake` };
}
