import { mkdir } from 'node:fs/promises';
import { openFile, openFlags } from '../../src/kernel/call/descriptor.ts';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { bindMount, type MountAttributes, type MountParameter, mountFilesystem } from '../../src/kernel/mount/mount.ts';
import { type Mount, readMountTable } from '../../src/kernel/mount/mount-table.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { attach, image, queue } from './fixture.ts';

/** The uppermost mount on a path. */
export async function mountAt(target: string): Promise<Mount | undefined> {
  return (await readMountTable(queue)).findLast((mount) => mount.target === target);
}

/** Mounts a new filesystem on `<directory>/<name>`. */
export async function mountNew(
  directory: string,
  fsType: FilesystemType,
  options: { parameters?: readonly MountParameter[]; attributes?: MountAttributes; name?: string } = {},
): Promise<string> {
  const { parameters = [], attributes = {}, name = 'mnt' } = options;
  const loop = await attach(await image(directory, fsType, `image of ${name.slice(0, 20)}`), directory);
  await using _keeper = loop.descriptor;
  const path = `${directory}/${name}`;
  await mkdir(path);
  await using target = await openDirectory(queue, path);
  await mountFilesystem(queue, { fsType, source: loop.devicePath, parameters, attributes, target });
  return path;
}

/** Binds one path on another. */
export async function bind(from: string, to: string, attributes: MountAttributes = {}): Promise<void> {
  await using origin = await openFile(queue, from, openFlags.O_PATH);
  await using target = await openFile(queue, to, openFlags.O_PATH);
  await bindMount(queue, { from: origin, target, attributes });
}
