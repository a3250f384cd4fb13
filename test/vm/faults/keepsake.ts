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

function placeIn({ content, targetPath }: GuestVolume): { readonly path: string; readonly offsetBytes?: number } {
  return content === 'block' ? { path: targetPath, offsetBytes: 0 } : { path: `${targetPath}/keepsake` };
}
