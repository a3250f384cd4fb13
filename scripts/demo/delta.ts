import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { formatBytes } from '../../src/volume/size.ts';
import { CallError, type DriverClient } from '../../test/support/client.ts';
import type { DemoVolume } from './volume.ts';

const mebibyte = 1 << 20;
/** What lies on the disk before the first snapshot. */
const fullBytes = 64 * mebibyte;
/** What is written between the two, in MiB from the start. */
const changes = [3, 17, 40];

/** Two snapshots of a disk, and what a backup would have to copy of the second: told without reading any of it. */
export async function tellDelta(client: DriverClient, disk: DemoVolume): Promise<string> {
  const snapshotIds: string[] = [];
  const cut = async (name: string) => {
    const id = await disk.cut(name);
    snapshotIds.push(id);
    return id;
  };
  try {
    return await compare(client, disk, cut);
  } catch (error) {
    // As on btrfs, which moves blocks by itself; the driver says so.
    if (error instanceof CallError && error.code === 'FAILED_PRECONDITION') return 'only told on XFS, not here';
    throw error;
  } finally {
    for (const snapshot_id of snapshotIds) await client.controller.DeleteSnapshot({ snapshot_id });
  }
}

async function compare(
  client: DriverClient,
  disk: DemoVolume,
  cut: (name: string) => Promise<string>,
): Promise<string> {
  const device = await open(disk.targetPath, 'r+');
  try {
    await device.write(randomBytes(fullBytes), 0, fullBytes, 0);
    await device.sync();
    const base_snapshot_id = await cut('monday');
    for (const at of changes) await device.write(randomBytes(mebibyte), 0, mebibyte, at * mebibyte);
    await device.sync();
    const target_snapshot_id = await cut('tuesday');
    const startedMs = performance.now();
    const answers = await client.snapshotMetadata.GetMetadataDelta({ base_snapshot_id, target_snapshot_id });
    const elapsedMs = performance.now() - startedMs;
    const ranges = answers.flatMap(({ block_metadata }) => block_metadata);
    for (const at of changes) {
      const offset = BigInt(at * mebibyte);
      const isTold = ranges.some(
        (range) => range.byte_offset <= offset && offset < range.byte_offset + range.size_bytes,
      );
      if (!isTold) throw new Error(`the delta lacks the change at ${at} MiB`);
    }
    const changedBytes = ranges.reduce((sum, { size_bytes }) => sum + size_bytes, 0n);
    const places = changes.map((at) => `${at}Mi`).join(', ');
    return `${formatBytes(changedBytes)} of ${formatBytes(BigInt(fullBytes))} changed, at ${places}; told in ${elapsedMs.toFixed(1)} ms`;
  } finally {
    await device.close();
  }
}
