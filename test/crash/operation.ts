import type { VolumeContent } from '../../src/volume/capability.ts';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import type { Circumstances, CrashNode } from './crash-node.ts';
import type { TestVolume } from './test-volume.ts';

/** Something that a driver can be killed in. */
export interface Operation {
  readonly name: string;
  /** Of the volume that it is about. */
  readonly content: VolumeContent;
  readonly circumstances?: Circumstances;
  /** Every step that it passes, those behind its answer included. */
  readonly steps: readonly StepName[];
  /** Whether the volume is there after a crash at this point; undefined: after any. */
  readonly isThereAfter?: (point: CrashPoint) => boolean;
  /** What stands for the volume; unset: one that is made by CreateVolume. */
  makeVolume?(node: CrashNode, name: string): TestVolume;
  /** Brings a volume that does not exist to where the operation begins. */
  prelude(volume: TestVolume): Promise<void>;
  /** The call itself; also its replay. */
  run(volume: TestVolume): Promise<void>;
  /** Asserts what must hold once the replay has succeeded. */
  checkDone?(volume: TestVolume): Promise<void>;
  /** The call that takes it back (T02), or for one that nothing takes back, the same with less. */
  opposite(volume: TestVolume): Promise<void>;
  /** Asserts what must hold once the opposite call has succeeded. */
  checkUndone?(volume: TestVolume): Promise<void>;
  /** Removes what there is besides the volume, whether the operation was done or undone. The volume is gone by then. */
  cleanUp?(volume: TestVolume): Promise<void>;
}

export const ext4: VolumeContent = { type: 'mount', fsType: 'ext4' };
export const xfs: VolumeContent = { type: 'mount', fsType: 'xfs' };
export const btrfs: VolumeContent = { type: 'mount', fsType: 'btrfs' };
export const block: VolumeContent = { type: 'block' };
export const directory: VolumeContent = { type: 'directory' };

export async function nothing(): Promise<void> {}

export async function publishedWithData(volume: TestVolume): Promise<void> {
  await volume.create();
  await volume.attach();
  await volume.stage();
  await volume.publish();
  await volume.write();
}

/** Exists, with data in it, and is used by nobody. */
export async function used(volume: TestVolume): Promise<void> {
  await publishedWithData(volume);
  await volume.unpublish();
  await volume.unstage();
  await volume.detach();
}
