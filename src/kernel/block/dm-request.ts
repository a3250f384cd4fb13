import { type DeviceNumber, packedNumber } from '../device.ts';

/* The requests of device-mapper's control device (include/uapi/linux/dm-ioctl.h), as bytes. */

/** All requests start with a struct dm_ioctl, followed by the data. */
const structBytes = 312;
export const at = {
  size: 12,
  start: 16,
  targetCount: 20,
  openCount: 24,
  flags: 28,
  eventNumber: 32,
  device: 40,
  name: 48,
  uuid: 176,
} as const;
export const nameBytes = 128;
export const uuidBytes = 129;
/** A struct dm_target_spec, followed by its parameters or its status as text. */
export const targetBytes = 40;
export const targetTypeAt = 24;
const sectorBytes = 512n;

/**
 * A name, a number, or a UUID. A name, and even more a number, may belong to another device by now; a UUID only if its
 * owner uses it several times.
 */
export type Wanted = string | DeviceNumber | { readonly uuid: string };

export function requestFor(wanted: Wanted, flags = 0): Buffer {
  const request = Buffer.alloc(structBytes);
  // The version of the interface, which has been 4 since Linux 2.6.
  request.writeUInt32LE(4, 0);
  request.writeUInt32LE(structBytes, at.size);
  request.writeUInt32LE(structBytes, at.start);
  request.writeUInt32LE(flags, at.flags);
  if (typeof wanted !== 'string' && 'uuid' in wanted) {
    if (wanted.uuid === '' || Buffer.byteLength(wanted.uuid) >= uuidBytes)
      throw new RangeError(`a mapped device cannot have the UUID '${wanted.uuid}'`);
    request.write(wanted.uuid, at.uuid);
    return request;
  }
  if (typeof wanted !== 'string') {
    request.writeBigUInt64LE(packedNumber(wanted), at.device);
    return request;
  }
  if (Buffer.byteLength(wanted) >= nameBytes) throw new RangeError(`a mapped device cannot be named ${wanted}`);
  request.write(wanted, at.name);
  return request;
}

/** Reads text that ends with a zero. */
export function textAt(request: Buffer, start: number, lengthBytes: number): string {
  const bytes = request.subarray(start, start + lengthBytes);
  return bytes.toString('latin1', 0, bytes.indexOf(0));
}

/** A request for a table of one target. */
export function tableRequest(name: string, table: Buffer): Buffer {
  const request = Buffer.concat([requestFor(name), table]);
  request.writeUInt32LE(request.length, at.size);
  request.writeUInt32LE(1, at.targetCount);
  return request;
}

/** A request with a message to the first target: a struct dm_target_msg, whose sector is 0. */
export function messageRequest(wanted: Wanted, message: string): Buffer {
  const request = Buffer.concat([requestFor(wanted), Buffer.alloc(8), Buffer.from(`${message}\0`)]);
  request.writeUInt32LE(request.length, at.size);
  return request;
}

/** The table of a device that is a part of another one: Documentation/admin-guide/device-mapper/linear.rst. */
export function linearTable(
  { major, minor }: DeviceNumber,
  { lengthBytes, offsetBytes }: { readonly offsetBytes: bigint; readonly lengthBytes: bigint },
): Buffer {
  if (lengthBytes <= 0n || offsetBytes % sectorBytes !== 0n || lengthBytes % sectorBytes !== 0n) {
    throw new RangeError(`${lengthBytes} bytes at ${offsetBytes} are no whole sectors`);
  }
  const parameters = Buffer.from(`${major}:${minor} ${offsetBytes / sectorBytes}\0`);
  const table = Buffer.alloc(targetBytes + Math.ceil(parameters.length / 8) * 8);
  table.writeBigUInt64LE(lengthBytes / sectorBytes, 8);
  table.writeUInt32LE(table.length, 20);
  table.write('linear', targetTypeAt);
  parameters.copy(table, targetBytes);
  return table;
}
