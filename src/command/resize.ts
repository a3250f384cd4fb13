import { run } from './run.ts';

/** fsck(8): 0 clean, 1 errors corrected; any other code needs a person. */
const checkedOrRepaired = [0, 1];

/** Killing either of them could damage the volume. */
const mustFinish = true;

/**
 * Grows an unmounted ext4 to the size of its device. resize2fs insists on a forced check first; `-p` makes only
 * safe repairs. For nodes where the driver may not grow a mounted ext4 (CAP_SYS_RESOURCE).
 * @throws CommandError if the filesystem has damage that needs a decision
 */
export async function growUnmountedExt4(devicePath: string): Promise<void> {
  await run('e2fsck', ['-f', '-p', devicePath], { accept: checkedOrRepaired, keep: 'end', mustFinish });
  await run('resize2fs', [devicePath], { keep: 'end', mustFinish });
}
