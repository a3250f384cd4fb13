const words = /\bbad metadata (text|header) on\b|\bInconsistent metadata found for VG\b/i;

/**
 * True if a line of LVM's says that the disks of a group have different metadata: after a power cut one of them may have an
 * older text than another, or a half of one. LVM uses the newest whole one, and leaves a half one as it is until it gets
 * the command to repair it.
 */
export function tellsOfDifference(line: string): boolean {
  return words.test(line);
}

/** A device that has the label of a physical volume for which LVM takes another one. */
export interface CopyOfPv {
  readonly path: string;
  readonly pvUuid: string;
}

/** The device in a line of LVM's about such a copy, if it is one. */
export function copyToldOf(line: string): CopyOfPv | undefined {
  const [, path, pvUuid] = /\bNot using device (\S+) for PV ([A-Za-z0-9-]+)/.exec(line) ?? [];
  return path === undefined || pvUuid === undefined ? undefined : { path, pvUuid };
}
