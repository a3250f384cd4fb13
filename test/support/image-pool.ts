import type { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { ImageBackend } from '../../src/pool/kinds/image/image-backend.ts';
import { type ImagePoolOptions, openImageBackend } from '../../src/pool/kinds/image/open.ts';
import { openLocation } from '../../src/pool/location/location.ts';
import { configuredPlace } from '../../src/pool/location/place.ts';
import { openOver } from '../../src/pool/open.ts';
import type { VolumeSpec } from '../../src/pool/pool.ts';
import { CommitOrder } from '../../src/pool/records/commit-order.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import { ReservedSpace } from '../../src/pool/records/reserved-space.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

export type ImageTestOptions = TestPoolOptions<ImagePoolOptions>;

/** Opens the image pool of a scratch directory: a plain directory unless the options say otherwise. */
export function openTestPool(scratch: Pick<Scratch, 'join'>, options: ImageTestOptions = {}): Promise<Catalog> {
  const directory = { type: 'directory', path: scratch.join('pool') } as const;
  const chosen = { ...testSettings(scratch), location: directory, ...options };
  const { path } = configuredPlace(chosen.dataDirectory, chosen.name, chosen.location);
  return openOver(() => openImageBackend(chosen), { ...chosen, path });
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
export async function openTestBackend(
  scratch: Scratch,
  queue: DiskQueue,
  syncs: DirectorySync = new DirectorySync(),
): Promise<ImageBackend> {
  const settings = testSettings(scratch);
  const layout = new Layout(scratch.join('pool'));
  const location = await openLocation({
    ...{ ...settings, poolName: settings.name, queue },
    location: { type: 'directory', path: layout.root },
  });
  return new ImageBackend({
    ...{ ...settings, location, layout, queue, blockSizeBytes: 512 },
    ...{ syncs, order: new CommitOrder(queue, syncs, false), reserve: new ReservedSpace(layout.reserve) },
    ...{ cloning: 'copy', changedBlocks: 'allocated', formatQueue: queue, templates: undefined },
  });
}
