/** A device number as the kernel's user space sees it (makedev(3)). */
export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** Loop devices have major 7 (Documentation/admin-guide/devices.txt). */
export const loopMajor = 7;

/** Splits a 64-bit dev_t as glibc packs it (gnu_dev_major, gnu_dev_minor). */
export function deviceNumber(packed: bigint): DeviceNumber {
  const major = ((packed >> 8n) & 0xfffn) | ((packed >> 32n) & 0xfffff000n);
  const minor = (packed & 0xffn) | ((packed >> 12n) & 0xffffff00n);
  return { major: Number(major), minor: Number(minor) };
}

/** The inverse (gnu_dev_makedev). The kernel's 32-bit encoding in requests is the same within its range. */
export function packedNumber({ major, minor }: DeviceNumber): bigint {
  const [wideMajor, wideMinor] = [BigInt(major), BigInt(minor)];
  return (
    ((wideMajor & 0xfffff000n) << 32n) |
    ((wideMinor & 0xffffff00n) << 12n) |
    ((wideMajor & 0xfffn) << 8n) |
    (wideMinor & 0xffn)
  );
}

export function sameDevice(a: DeviceNumber | undefined, b: DeviceNumber | undefined): boolean {
  return a !== undefined && b !== undefined && a.major === b.major && a.minor === b.minor;
}

/** A number as sysfs writes it: `8:16`. */
export function parseDeviceNumber(text: string | undefined): DeviceNumber | undefined {
  const [, major, minor] = /^([0-9]+):([0-9]+)$/.exec(text ?? '') ?? [];
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) };
}
