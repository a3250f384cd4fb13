import { z } from 'zod';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import type { VolumeContext } from '../../node-side.ts';

/** The volume_context of an EBS volume: all that a node knows of it. */
export interface EbsContext {
  readonly volumeId: string;
  /** Arguments for mkfs, for the node that has it first. */
  readonly mkfsOptions: string;
  /** Made from a snapshot: its filesystem gets a new identity, and is never made. */
  readonly isRestored: boolean;
}

export const ebsKeys = ['volumeId', 'mkfsOptions', 'restored'] as const;

const schema = z.strictObject({
  volumeId: z
    .string()
    .regex(/^vol-[0-9a-f]{8,17}$/, { error: 'must be the id of an EBS volume, such as vol-0123456789abcdef0' }),
  mkfsOptions: z.string().max(1024).optional(),
  restored: z.enum(['true', 'false']).optional(),
});

/** @throws InvalidArgument that names the key */
export function readEbsContext(context: VolumeContext): EbsContext {
  const parsed = parseInput(schema, { ...context });
  if ('mistakes' in parsed) {
    throw new InvalidArgument(
      `volumeAttributes of an aws-ebs volume: ${parsed.mistakes.join('; ').replace(/\.$/, '')}.`,
    );
  }
  const { mkfsOptions = '', restored, volumeId } = parsed.data;
  return { volumeId, mkfsOptions, isRestored: restored === 'true' };
}

export function writeEbsContext({ isRestored, mkfsOptions, volumeId }: EbsContext): VolumeContext {
  return {
    volumeId,
    ...(mkfsOptions === '' ? {} : { mkfsOptions }),
    ...(isRestored ? { restored: 'true' } : {}),
  };
}

/** The serial number of the volume's NVMe device: its id without the dash. */
export function serialOf(volumeId: string): string {
  return volumeId.replace('-', '');
}
