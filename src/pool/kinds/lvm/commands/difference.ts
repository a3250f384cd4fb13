const words = /\bbad metadata (text|header) on\b|\bInconsistent metadata found for VG\b/i;

/**
 * Whether a line of LVM's says that the disks of a group differ in what they say of it: after a power cut one of them may
 * have an older text than another, or a half of one. LVM goes by the newest whole one, and leaves a half one as it is until
 * it is told otherwise.
 */
export function tellsOfDifference(line: string): boolean {
  return words.test(line);
}
