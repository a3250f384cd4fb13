import { newBtrfsUuid, newXfsUuid } from '../../command/identity.ts';
import { CommandError } from '../../command/run.ts';
import type { Lane } from '../../kernel/lane.ts';
import { attachLoop } from '../../kernel/loop.ts';
import { mountDetached } from '../../kernel/mount.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';

export interface CloneIdentity {
  readonly path: string;
  readonly fsType: FilesystemType;
  readonly blockSizeBytes: number;
}

/**
 * Gives a cloned filesystem a UUID of its own: XFS and btrfs refuse to be mounted beside another one with the same.
 * ext4 does not mind, and keeps its UUID.
 */
export async function giveNewIdentity(lane: Lane, { path, fsType, blockSizeBytes }: CloneIdentity): Promise<void> {
  if (fsType === 'ext4') return;
  const label = 'holdfast clone';
  const loop = await attachLoop(lane, { backingPath: path, label, readonly: false, autoclear: true, blockSizeBytes });
  await using _hold = loop.descriptor;
  if (fsType === 'btrfs') {
    // A freeze and an unmount both end with a commit, so there is no log to be replayed.
    await newBtrfsUuid(loop.devicePath);
    return;
  }
  try {
    await newXfsUuid(loop.devicePath);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // Cut from a mounted filesystem its log is not empty: mounting replays it, unmounting leaves it empty.
    const mount = await mountDetached(lane, {
      fsType: 'xfs',
      source: loop.devicePath,
      parameters: [['nouuid']],
      attributes: {},
    });
    await mount[Symbol.asyncDispose]();
    await newXfsUuid(loop.devicePath);
  }
}
