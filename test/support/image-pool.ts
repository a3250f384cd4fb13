import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { ImagePool } from '../../src/pool/kinds/image/image-pool.ts';
import { type ImagePoolOptions, openImagePool } from '../../src/pool/kinds/image/open.ts';
import type { VolumeSpec } from '../../src/pool/pool.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import type { Scratch } from './scratch.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens the image pool of a scratch directory: a plain directory unless the options say otherwise. */
export function openTestPool(scratch: Scratch, options: Partial<ImagePoolOptions> = {}): Promise<ImagePool> {
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
