import { run } from './run.ts';

/** Gives an unmounted XFS with an empty log a new UUID (xfs_admin(8)). @throws CommandError if its log is not empty */
export async function newXfsUuid(devicePath: string): Promise<void> {
  await run('xfs_admin', ['-U', 'generate', devicePath]);
}

/** Gives an unmounted btrfs a new UUID, without rewriting its tree blocks (btrfstune(8), -m). */
export async function newBtrfsUuid(devicePath: string): Promise<void> {
  await run('btrfstune', ['-f', '-m', devicePath]);
}
