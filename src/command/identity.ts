import { CommandError, run } from './run.ts';

/** Gives an unmounted XFS with an empty log a new UUID (xfs_admin(8)). @throws CommandError if its log is not empty */
export async function setXfsUuid(devicePath: string, uuid: string): Promise<void> {
  const { exitCode, stdout, stderr } = await run('xfs_admin', ['-U', uuid, devicePath]);
  // It exits with 0 even when it refuses.
  if (!stdout.includes('new UUID')) throw new CommandError('xfs_admin', exitCode, 'gave no new UUID', stderr || stdout);
}

/** Gives an unmounted ext4 with an empty journal a new UUID (tune2fs(8)). @throws CommandError */
export async function setExt4Uuid(path: string, uuid: string): Promise<void> {
  await run('tune2fs', ['-U', uuid, path]);
}
