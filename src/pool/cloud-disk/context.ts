import { z } from 'zod';
import { InvalidArgument } from '../../volume/errors.ts';
import { parseInput } from '../../volume/parse-input.ts';
import type { VolumeContext } from '../node-side.ts';

/** The volume_context of a cloud's volume: all that a node knows of it. */
export interface CloudVolume {
  /** The cloud's own id of the disk. */
  readonly volumeId: string;
  /** Arguments for mkfs, for the node that has it first. */
  readonly mkfsOptions: string;
  /** Made from a snapshot: its filesystem gets a new identity, and is never made. */
  readonly isRestored: boolean;
}

export const cloudVolumeKeys = ['volumeId', 'mkfsOptions', 'restored'] as const;

/** The form of a cloud's ids of disks. */
export interface DiskIdForm {
  /** The kind's name. */
  readonly kind: string;
  readonly pattern: RegExp;
  /** For messages: `the id of an EBS volume, such as vol-0123456789abcdef0`. */
  readonly words: string;
}

/** @throws InvalidArgument that names the key */
export function readCloudVolume({ kind, pattern, words }: DiskIdForm, context: VolumeContext): CloudVolume {
  const schema = z.strictObject({
    volumeId: z.string().regex(pattern, { error: `must be ${words}` }),
    mkfsOptions: z.string().max(1024).optional(),
    restored: z.enum(['true', 'false']).optional(),
  });
  const parsed = parseInput(schema, { ...context });
  if ('mistakes' in parsed) {
    throw new InvalidArgument(
      `volumeAttributes of volumes of kind ${kind}: ${parsed.mistakes.join('; ').replace(/\.$/, '')}.`,
    );
  }
  const { mkfsOptions = '', restored, volumeId } = parsed.data;
  return { volumeId, mkfsOptions, isRestored: restored === 'true' };
}

export function writeCloudVolume({ isRestored, mkfsOptions, volumeId }: CloudVolume): VolumeContext {
  return {
    volumeId,
    ...(mkfsOptions === '' ? {} : { mkfsOptions }),
    ...(isRestored ? { restored: 'true' } : {}),
  };
}
