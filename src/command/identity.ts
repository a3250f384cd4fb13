import { CommandError, run } from './run.ts';

/** Gives an unmounted XFS with an empty log a new UUID (xfs_admin(8)). @throws CommandError if its log is not empty */
export async function newXfsUuid(devicePath: string): Promise<void> {
  const { exitCode, stdout, stderr } = await run('xfs_admin', ['-U', 'generate', devicePath]);
  // It ends with 0 also when it refuses.
  if (!stdout.includes('new UUID')) throw new CommandError('xfs_admin', exitCode, 'gave no new UUID', stderr || stdout);
}
