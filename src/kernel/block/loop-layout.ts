import { type DeviceNumber, deviceNumber } from '../device.ts';

/** The structures of linux/loop.h, which are the same on x86_64 and arm64. */

export interface LoopConfiguration {
  readonly blockSizeBytes: number;
  readonly label: string;
  readonly readonly: boolean;
  readonly autoclear: boolean;
  readonly directIo: boolean;
}

/** The fields of struct loop_info64 for an attached device. */
export interface LoopInformation {
  readonly label: string;
  readonly backingDevice: DeviceNumber;
  readonly backingInode: bigint;
  readonly readonly: boolean;
  readonly autoclear: boolean;
  readonly directIo: boolean;
}

const LO_FLAGS_READ_ONLY = 1;
const LO_FLAGS_AUTOCLEAR = 4;
const LO_FLAGS_DIRECT_IO = 16;

export const loopInfoBytes = 232;
const deviceAt = 0;
const inodeAt = 8;
const flagsAt = 52;
const fileNameAt = 56;
const fileNameBytes = 64;

/** struct loop_config: the file's descriptor, the block size, a struct loop_info64, and eight reserved words. */
const configInfoAt = 8;
const configBytes = configInfoAt + loopInfoBytes + 64;

/** The longest label: lo_file_name ends with a NUL. */
export const maximumLabelBytes = fileNameBytes - 1;

/** Encodes everything but the file, which `nameBackingFile` fills in. */
export function encodeLoopConfig(configuration: LoopConfiguration): Buffer {
  const { blockSizeBytes, label, readonly, autoclear, directIo } = configuration;
  if (Buffer.byteLength(label) > maximumLabelBytes) throw new RangeError(`'${label}' is too long for a loop label`);
  const flags =
    (readonly ? LO_FLAGS_READ_ONLY : 0) | (autoclear ? LO_FLAGS_AUTOCLEAR : 0) | (directIo ? LO_FLAGS_DIRECT_IO : 0);
  const config = Buffer.alloc(configBytes);
  config.writeUInt32LE(blockSizeBytes, 4);
  config.writeUInt32LE(flags, configInfoAt + flagsAt);
  config.write(label, configInfoAt + fileNameAt, 'utf8');
  return config;
}

/** @returns the same structure, with the number of the descriptor in it */
export function nameBackingFile(config: Buffer, fd: number): Buffer {
  config.writeUInt32LE(fd, 0);
  return config;
}

export function decodeLoopInfo(info: Buffer): LoopInformation {
  const flags = info.readUInt32LE(flagsAt);
  const name = info.subarray(fileNameAt, fileNameAt + fileNameBytes);
  const end = name.indexOf(0);
  return {
    label: name.toString('utf8', 0, end === -1 ? fileNameBytes : end),
    backingDevice: deviceNumber(info.readBigUInt64LE(deviceAt)),
    backingInode: info.readBigUInt64LE(inodeAt),
    readonly: (flags & LO_FLAGS_READ_ONLY) !== 0,
    autoclear: (flags & LO_FLAGS_AUTOCLEAR) !== 0,
    directIo: (flags & LO_FLAGS_DIRECT_IO) !== 0,
  };
}
