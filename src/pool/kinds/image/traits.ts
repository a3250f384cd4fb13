import { filesystemTypes } from '../../../volume/filesystem.ts';
import { provisionings } from '../../../volume/record.ts';
import type { Traits } from '../../pool.ts';

/** The traits of a pool of images on any filesystem. */
export const imageTraits = {
  block: true,
  directories: false,
  filesystems: filesystemTypes,
  provisioning: provisionings,
  expansion: { online: true, offline: true },
  detaching: 'automatic',
} as const satisfies Partial<Traits>;
