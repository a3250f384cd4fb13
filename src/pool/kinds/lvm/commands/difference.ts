const words = /\bbad metadata (text|header) on\b|\bInconsistent metadata found for VG\b/i;

/**
 * Whether a line of LVM's says that the disks of a group differ in what they say of it: after a power cut one of them may
 * have an older text than another, or a half of one. LVM goes by the newest whole one, and leaves a half one as it is until
 * it is told otherwise.
 */
export function tellsOfDifference(line: string): boolean {
  return words.test(line);
}

/** A device that has the label of a physical volume for which LVM takes another one. */
export interface CopyOfPv {
  readonly path: string;
  readonly pvUuid: string;
}

/** What a line of LVM's says of such a device, if it does. */
export function copyToldOf(line: string): CopyOfPv | undefined {
  const [, path, pvUuid] = /\bNot using device (\S+) for PV ([A-Za-z0-9-]+)/.exec(line) ?? [];
  return path === undefined || pvUuid === undefined ? undefined : { path, pvUuid };
}
