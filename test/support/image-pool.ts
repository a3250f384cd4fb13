import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { ImageBackend } from '../../src/pool/kinds/image/image-backend.ts';
import { type ImagePoolOptions, openImagePool } from '../../src/pool/kinds/image/open.ts';
import { openLocation } from '../../src/pool/location/location.ts';
import { ReservedSpace } from '../../src/pool/location/reserved-space.ts';
import type { VolumeSpec } from '../../src/pool/pool.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import type { Scratch } from './scratch.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens the image pool of a scratch directory: a plain directory unless the options say otherwise. */
export function openTestPool(scratch: Scratch, options: Partial<ImagePoolOptions> = {}): Promise<Catalog> {
  return openImagePool({
    name: 'test',
    location: { type: 'directory', path: scratch.join('pool') },
    dataDirectory: scratch.join('data'),
    reserveBytes: undefined,
    overcommit: 1,
    defaultFilesystem: 'ext4',
    undeleteSeconds: 0,
    trimming: 'weekly',
    lockTimeoutMs: 0,
    queue: new DiskQueue('test', 4),
    log: quiet,
    ...options,
  });
}

/** A small ext4 volume, or what the changes make of it. */
export function volumeSpec(name: string, changes: Partial<VolumeSpec> = {}): VolumeSpec {
  return {
    id: volumeIdFor('node', 'test', name),
    name,
    sizeBytes: 64n << 20n,
    content: { type: 'mount', fsType: 'ext4' },
    accessModes: ['SINGLE_NODE_WRITER'],
    provisioning: 'thin',
    mkfsArguments: [],
    parameters: {},
    ...changes,
  };
}

/** The backend alone of a closed pool that `openTestPool` made. Its location stays locked by this process. */
export async function openTestBackend(scratch: Scratch, queue: DiskQueue): Promise<ImageBackend> {
  const layout = new Layout(scratch.join('pool'));
  const location = await openLocation({
    ...{ poolName: 'test', queue, lockTimeoutMs: 0, dataDirectory: scratch.join('data') },
    location: { type: 'directory', path: layout.root },
  });
  return new ImageBackend({
    ...{ name: 'test', location, layout, queue, log: quiet, blockSizeBytes: 512 },
    ...{ syncs: new DirectorySync(), reserve: new ReservedSpace(layout.reserve) },
    ...{ cloning: 'copy', changedBlocks: 'allocated', formatQueue: queue, templates: undefined },
  });
}
