import type { DeviceNumber } from '../device.ts';
import type { TargetStatus } from './device-mapper.ts';

/* The status of the targets thin-pool and thin: Documentation/admin-guide/device-mapper/thin-provisioning.rst. */

/** A size, and the used part of it. */
export interface Filling {
  readonly usedBytes: bigint;
  readonly totalBytes: bigint;
}

/** rw: normal. out_of_data_space: writes wait for space. ro: no writes. fail: no reads either. */
export type ThinPoolMode = 'rw' | 'out_of_data_space' | 'ro' | 'fail';

export interface ThinPoolStatus {
  readonly mode: ThinPoolMode;
  readonly data: Filling;
  readonly metadata: Filling;
  /** Only an offline check would make it writable again. */
  readonly needsCheck: boolean;
  /** The first block of the metadata snapshot; undefined: there is none. */
  readonly snapshotBlock?: bigint | undefined;
}

const metadataBlockBytes = 4096n;
const sectorBytes = 512n;
const unknown: Filling = { usedBytes: 0n, totalBytes: 0n };

/** @param chunkBytes size of the pool's chunks. @returns undefined if it is no thin pool */
export function parseThinPool({ text, type }: TargetStatus, chunkBytes: bigint): ThinPoolStatus | undefined {
  if (type !== 'thin-pool') return undefined;
  if (/^(Fail|Error)$/.test(text)) return { mode: 'fail', data: unknown, metadata: unknown, needsCheck: true };
  const [, metadata, data, held = '', ...rest] = text.split(' ');
  const mode = (['rw', 'out_of_data_space', 'ro'] as const).find((each) => rest.includes(each));
  const [metadataFilling, dataFilling] = [filling(metadata, metadataBlockBytes), filling(data, chunkBytes)];
  if (mode === undefined || metadataFilling === undefined || dataFilling === undefined) return undefined;
  const status = { mode, data: dataFilling, metadata: metadataFilling, needsCheck: rest.includes('needs_check') };
  return /^[0-9]+$/.test(held) ? { ...status, snapshotBlock: BigInt(held) } : status;
}

/** The bytes of its pool that a thin volume maps, shared or not; undefined: not in the status. */
export function parseThinBytes({ text, type }: TargetStatus): bigint | undefined {
  const [, sectors] = type === 'thin' ? (/^([0-9]+) ([0-9]+|-)$/.exec(text) ?? []) : [];
  return sectors === undefined ? undefined : BigInt(sectors) * sectorBytes;
}

/** The identity of a thin volume in its pool. */
export interface ThinNumber {
  readonly poolDevice: DeviceNumber;
  /** The id of the volume in the pool. */
  readonly thinId: bigint;
}

/** Reads the table of a device; undefined: it is no thin volume, or has an origin outside of its pool. */
export function parseThinNumber({ text, type }: TargetStatus): ThinNumber | undefined {
  const [, major, minor, id] = type === 'thin' ? (/^([0-9]+):([0-9]+) ([0-9]{1,8})$/.exec(text) ?? []) : [];
  if (id === undefined) return undefined;
  return { poolDevice: { major: Number(major), minor: Number(minor) }, thinId: BigInt(id) };
}

function filling(text: string | undefined, unitBytes: bigint): Filling | undefined {
  const [, used, total] = /^([0-9]+)\/([0-9]+)$/.exec(text ?? '') ?? [];
  if (used === undefined || total === undefined) return undefined;
  return { usedBytes: BigInt(used) * unitBytes, totalBytes: BigInt(total) * unitBytes };
}
