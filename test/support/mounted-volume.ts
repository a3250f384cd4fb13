import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { mountFilesystem, unmount } from '../../src/kernel/mount/mount.ts';
import { detachUnmounted } from '../../src/node/detach.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { PoolVolume } from '../../src/pool/recorded-volumes.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import type { Scratch } from './scratch.ts';

/** A pool's volume, mounted without a node service; unmounted on disposal. */
export interface MountedVolume extends AsyncDisposable {
  readonly path: string;
}

/** One with a filesystem of its own. */
export interface MountedDevice extends MountedVolume {
  readonly devicePath: string;
}

/** As a filesystem, or as the directory that it is. */
export async function mounted(pool: Pool, id: VolumeId, scratch: Scratch): Promise<MountedVolume> {
  const record = await pool.find(id);
  return record?.content.type === 'directory' ? mountedDirectory(pool, id, scratch) : mountedDevice(pool, id, scratch);
}

async function mountedDirectory(pool: Pool, id: VolumeId, scratch: Scratch): Promise<MountedVolume> {
  const path = scratch.join('mounted', id);
  mkdirSync(path, { recursive: true });
  const attachment = await pool.attach(id, { persistent: false });
  try {
    if (attachment.kind === 'directory') {
      execFileSync('mount', ['--bind', attachment.path, path]);
    } else if (attachment.kind === 'mountable' && attachment.mountAt !== undefined) {
      await using target = await openDirectory(pool.queue, path);
      await attachment.mountAt(target, { attributes: {}, parameters: [] });
    } else {
      throw new Error(`${id} is no directory`);
    }
  } finally {
    await attachment.release();
  }
  return { path, [Symbol.asyncDispose]: () => unmount(pool.queue, path) };
}

export async function mountedDevice(pool: Pool, id: VolumeId, scratch: Scratch): Promise<MountedDevice> {
  const record = await pool.find(id);
  if (record?.content.type !== 'mount') throw new Error(`${id} has no filesystem`);
  const path = scratch.join('mounted', id);
  mkdirSync(path, { recursive: true });
  const attachment = await attachDevice(pool, id, { persistent: false });
  try {
    await using target = await openDirectory(pool.queue, path);
    const { fsType } = record.content;
    await mountFilesystem(pool.queue, {
      fsType,
      source: attachment.devicePath,
      parameters: [],
      attributes: {},
      target,
    });
  } finally {
    await attachment.release();
  }
  const undo = async () => {
    await unmount(pool.queue, path);
    await detachUnmounted(pool.queue, new PoolVolume(pool, id));
  };
  return { path, devicePath: attachment.devicePath, [Symbol.asyncDispose]: undo };
}

export async function withMounted(
  pool: Pool,
  id: VolumeId,
  scratch: Scratch,
  work: (path: string) => void,
): Promise<void> {
  await using volume = await mounted(pool, id, scratch);
  work(volume.path);
}
