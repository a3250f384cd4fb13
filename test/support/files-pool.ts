import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { findRoot, rootThrough, showsDirectory } from '../../src/kernel/mount/directory-root.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { mountsOf } from '../../src/pool/attached-mounts.ts';
import type { Attached, Pool } from '../../src/pool/pool.ts';
import { parseVolumeId, type VolumeId } from '../../src/volume/id.ts';
import { openTestPool } from './image-pool.ts';
import type { Scratch } from './scratch.ts';

/*
 * Pools whose volumes are no disks, for the node service: records and all else are an image pool's, but a volume is
 * reached in another way.
 */

type Reach = Pick<Pool, 'attach' | 'attached' | 'detach' | 'quotaUsage' | 'volumeSeen'>;

function reachedBy(pool: Pool, reach: Partial<Reach>): Pool {
  return new Proxy(pool, {
    get(target, name) {
      const own: unknown = Reflect.get(reach, name);
      const value: unknown = own ?? Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(own === undefined ? target : reach) : value;
    },
  });
}

/** Volumes are directories of `files`, on whichever filesystem that lies. */
export async function openDirectoryPool(
  scratch: Scratch,
  files: string,
  more: Partial<Pick<Reach, 'quotaUsage'>> = {},
): Promise<Pool> {
  const pool = await openTestPool(scratch);
  const volumes = join(files, 'volumes');
  mkdirSync(volumes, { recursive: true });
  const directoryOf = (id: VolumeId) => ({ kind: 'directory', path: join(volumes, id, 'data') }) as const;
  return reachedBy(pool, {
    async attach(id) {
      const attached = directoryOf(id);
      mkdirSync(attached.path, { recursive: true });
      const descriptor = await openDirectory(pool.queue, attached.path);
      return { ...attached, descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    },
    attached: async (id) => (existsSync(directoryOf(id).path) ? thoseMounted(pool, [directoryOf(id)]) : []),
    detach: async () => undefined,
    async volumeSeen({ mount }) {
      const around = findRoot(await readMountTable(pool.queue), volumes);
      if (mount === undefined || around === undefined || !showsDirectory(mount, around)) return undefined;
      const below = rootThrough({ root: '/', target: around.root }, mount.root) ?? '/';
      const [, name = '', data, ...rest] = below.split('/');
      const id = parseVolumeId(name);
      return id === undefined || data !== 'data' ? undefined : { id, isWhole: rest.length === 0 };
    },
    ...more,
  });
}

/** Volumes are filesystems that are mounted as they are, from no device. */
export async function openMountablePool(scratch: Scratch, options: readonly string[]): Promise<Pool> {
  const pool = await openTestPool(scratch);
  const mountableOf = (id: VolumeId) => ({ kind: 'mountable', fsType: 'tmpfs', source: `on-${id}`, options }) as const;
  return reachedBy(pool, {
    attach: async (id) => ({ ...mountableOf(id), release: async () => undefined }),
    attached: async (id) => thoseMounted(pool, [mountableOf(id)]),
    detach: async () => undefined,
    async volumeSeen({ mount }) {
      const id = parseVolumeId(/^on-(.*)$/.exec(mount?.source ?? '')?.[1] ?? '');
      return id === undefined || mount?.fsType !== 'tmpfs' ? undefined : { id, isWhole: mount.root === '/' };
    },
  });
}

async function thoseMounted(pool: Pool, attached: readonly Attached[]): Promise<Attached[]> {
  const table = await readMountTable(pool.queue);
  return table.some(await mountsOf(pool.queue, attached, table)) ? [...attached] : [];
}
