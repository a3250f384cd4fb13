import { CommandError, run } from './run.ts';

const checkOptions = {
  /**
   * A check reads all metadata, which takes hours on a large filesystem. A caller that gives up can come back and join.
   */
  timeoutMs: 12 * 3600_000,
  /** It prints a line for each problem. */
  keep: 'end',
} as const;

/**
 * fsck(8): 0 clean, 1 errors corrected, 2 the same and a reboot is advised if the filesystem was mounted, which it was
 * not.
 */
const cleanOrRepaired = [0, 1, 2];

/** The position of a copy of the superblock of an ext4. */
export interface Ext4Copy {
  readonly block: bigint;
  readonly blockBytes: bigint;
}

/**
 * Checks an unmounted ext4, in a file or on a device, and repairs it.
 * @param copy the superblock to use if the first one cannot be read
 * @throws CommandError if it cannot
 */
export async function repairExt4(path: string, copy?: Ext4Copy): Promise<void> {
  const from = copy === undefined ? [] : ['-b', `${copy.block}`, '-B', `${copy.blockBytes}`];
  await run('e2fsck', ['-f', '-y', ...from, path], { ...checkOptions, accept: cleanOrRepaired });
  // A repair may uncover more damage, so it is checked again.
  await run('e2fsck', ['-f', '-y', path], checkOptions);
}

/** Completes an unmounted ext4 after a power cut; damage that needs a decision is left. @throws CommandError */
export async function completeExt4(path: string): Promise<void> {
  await run('e2fsck', ['-f', '-p', path], { ...checkOptions, accept: cleanOrRepaired });
  await run('e2fsck', ['-f', '-y', path], checkOptions);
}

/** xfs_repair(8): the log must be replayed first, by mounting. */
const hasDirtyLog = 2;

/**
 * Checks an unmounted XFS in a file, and repairs it.
 * @param replayLog mounts it for a moment; if that fails, the log is discarded, as it cannot be replayed
 * @throws CommandError if it cannot
 */
export async function repairXfs(path: string, replayLog: () => Promise<void>): Promise<void> {
  const repair = (...options: string[]) =>
    run('xfs_repair', ['-f', ...options, path], { ...checkOptions, accept: [0, hasDirtyLog] });
  if ((await repair()).exitCode === 0) return;
  const isReplayed = await replayLog().then(
    () => true,
    () => false,
  );
  if (isReplayed && (await repair()).exitCode === 0) return;
  const { exitCode, stderr, stdout } = await repair('-L');
  if (exitCode !== 0)
    throw new CommandError('xfs_repair', exitCode, `failed with exit code ${exitCode}`, stderr, stdout);
}

/** Checks without repairing: btrfs-check(8) warns against its repairs. @throws CommandError if anything is wrong */
export async function checkBtrfs(path: string): Promise<void> {
  await run('btrfs', ['check', '--readonly', path], checkOptions);
}
