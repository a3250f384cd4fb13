import type * as wire from '../../csi/generated/types.ts';
import { parseCapability } from '../../csi/parse.ts';
import { excess, type VolumeCapability } from '../../volume/capability.ts';
import { InvalidArgument, OutOfRange } from '../../volume/errors.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { type CapacityRange, granularityBytes, larger, maximumVolumeBytes, roundUp } from '../../volume/size.ts';

/**
 * The new size of the volume: never less than its current one (CE04).
 * @throws OutOfRange if no possible size lies in the range (CE08)
 */
export function targetSize(
  record: Pick<VolumeRecord, 'id' | 'sizeBytes'>,
  range: CapacityRange | undefined,
  multipleBytes = granularityBytes,
): bigint {
  const required = range?.requiredBytes ?? 0n;
  if (required > maximumVolumeBytes) {
    throw new OutOfRange(`${required} bytes are more than a volume can have (${maximumVolumeBytes} bytes).`);
  }
  const target = larger(record.sizeBytes, roundUp(required, multipleBytes));
  const limit = range?.limitBytes;
  if (limit !== undefined && target > limit) {
    throw new OutOfRange(
      record.sizeBytes > limit
        ? `Volume ${record.id} has ${record.sizeBytes} bytes, more than limit_bytes ${limit}, and volumes never shrink.`
        : `Volume ${record.id} would get ${target} bytes (multiples of ${multipleBytes}), over limit_bytes ${limit}: raise the limit.`,
    );
  }
  return target;
}

/**
 * Parses the intended use of the volume, if the caller names it. @throws InvalidArgument if no volume of ours supports
 * it (CE06)
 */
export function parseUse(capability: wire.VolumeCapability | null): VolumeCapability | undefined {
  return capability === null ? undefined : parseCapability(capability, (why) => new InvalidArgument(why));
}

/** @throws InvalidArgument if this volume cannot be used that way (CE06) */
export function requireUse(record: VolumeRecord, use: VolumeCapability | undefined): void {
  const reason = use === undefined ? undefined : excess(record, use);
  if (reason !== undefined) throw new InvalidArgument(`Volume ${record.id}: ${reason}.`);
}
