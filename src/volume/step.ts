import { channel } from 'node:diagnostics_channel';

/**
 * The steps of every operation that changes something. The process may die after any of them; the state that it leaves
 * must be repeatable or removable. Tests kill the driver before and after each step of this list (test/crash); a step
 * that is not in the list does not compile.
 */
export const stepNames = [
  'open/draft',
  'open/commit',
  'open/mark',
  'open/format',
  'open/unmark',
  'open/mount',
  'open/extend',
  'open/resize',
  'open/grow',
  'open/identity',
  'open/settle',
  'open/remember',
  'open/thaw',
  'unstage/thaw',
  'create/directory',
  'create/data',
  'create/format',
  'create/ahead',
  'create/clone',
  'create/identity',
  'create/record',
  'create/commit',
  'adopt/draft',
  'adopt/commit',
  'adopt/move',
  'adopt/settle',
  'release/mark',
  'release/clear',
  'release/move',
  'template/format',
  'template/check',
  'template/commit',
  'template/remove',
  'remove/mark',
  'remove/trash',
  'remove/unmark',
  'remove/purge',
  'restore/commit',
  'modify/data',
  'modify/record',
  'publication/record',
  'snapshot/directory',
  'snapshot/ahead',
  'snapshot/take',
  'snapshot/record',
  'snapshot/commit',
  'snapshot/remove',
  'group/commit',
  'group/remove',
  'grow/data',
  'grow/record',
  'grow/device',
  'attach/device',
  'detach/device',
  'note/write',
  'repair/clone',
  'repair/check',
  'repair/keep',
  'repair/record',
  'repair/commit',
  'stage/grow',
  'stage/mount',
  'stage/device',
  'unstage/unmount',
  'unstage/device',
  'ephemeral/populate',
  'ephemeral/prepare',
  'publish/target',
  'publish/device',
  'publish/mount',
  'unpublish/unmount',
  'unpublish/target',
  'expand/filesystem',
] as const;

/** Steps of encrypted volumes, where the kernel has device-mapper; tested in the virtual machine. */
export const encryptionStepNames = [
  'luks/format',
  'luks/identity',
  'luks/open',
  'luks/defer',
  'luks/close',
  'luks/resize',
  'luks/add-key',
  'luks/name-key',
  'luks/remove-key',
  'luks/erase',
  'rekey/record',
] as const;

/** Steps of disks that get their encryption at their first stage; killed around each of them in the virtual machine. */
export const firstEncryptionStepNames = ['luks/mark', 'luks/mark-header', 'luks/unmark', 'luks/finish'] as const;

/** Steps of thin pools, where a volume in use is cloned; tested in the virtual machine. */
export const instantStepNames = ['instant/forget', 'instant/suspend', 'instant/take', 'instant/resume'] as const;

/** Steps of thin pools whose changed blocks are read. */
export const metadataStepNames = [
  'metadata/note',
  'metadata/reserve',
  'metadata/record',
  'metadata/release',
  'metadata/clear',
] as const;

/** Steps of a move to another pool; tested in test/move. */
export const moveStepNames = [
  'move/note',
  'move/draft',
  'move/zeros',
  'move/progress',
  'move/whole',
  'move/arrived',
  'move/fence',
  'move/open',
  'move/generation',
  'move/give',
  'move/complete',
  'move/commit',
  'move/settle',
  'move/take-back',
  'move/discard',
  'move/forget',
] as const;

/** Steps of volumes that this node has no record of. */
export const volumeNoteStepNames = ['volume-note/write', 'volume-note/remove'] as const;

/** Steps of volumes on a target; tested in the virtual machine. */
export const targetStepNames = [
  'nvme/note',
  'nvme/connect',
  'nvme/disconnect',
  'iscsi/note',
  'iscsi/login',
  'iscsi/scan',
  'iscsi/map',
  'iscsi/resize',
  'iscsi/unmap',
  'iscsi/delete',
  'iscsi/logout',
] as const;

/** Steps of disks that a cloud has; killed around each of them in test/cloud. */
export const cloudStepNames = [
  'cloud/create',
  'cloud/delete',
  'cloud/label',
  'cloud/grow',
  'cloud/snapshot',
  'cloud/attach',
  'cloud/detach',
  'cloud/note',
  'cloud/mark',
  'cloud/format',
  'cloud/identity',
  'cloud/unmark',
] as const;

/** Steps of volumes on NFS, beside those of all; killed around each of them in the virtual machine. */
const nfsStepNames = ['create/name'] as const;

/** Steps of volumes that programs of the user's make reachable. */
export const programStepNames = ['exec/note', 'exec/run', 'exec/forget'] as const;

/** Steps of volumes on GlusterFS; killed around each of them in the virtual machine. */
export const glusterStepNames = [
  'gluster/note',
  'gluster/start',
  'gluster/unmount',
  'gluster/end',
  'gluster/forget',
] as const;

export type StepName =
  | (typeof stepNames)[number]
  | (typeof encryptionStepNames)[number]
  | (typeof firstEncryptionStepNames)[number]
  | (typeof instantStepNames)[number]
  | (typeof metadataStepNames)[number]
  | (typeof moveStepNames)[number]
  | (typeof volumeNoteStepNames)[number]
  | (typeof targetStepNames)[number]
  | (typeof cloudStepNames)[number]
  | (typeof nfsStepNames)[number]
  | (typeof programStepNames)[number]
  | (typeof glusterStepNames)[number];

/**
 * The point at which a test kills the process: `before create/commit`; or `after snapshot/take 2`, at its second pass.
 */
export interface CrashPoint {
  readonly when: 'before' | 'after';
  readonly step: StepName;
  /** Default: the first pass. */
  readonly pass?: number;
}

let armed: CrashPoint | undefined;
let passes = 0;

/** For tests only, set once from the configuration: the process kills itself at this point, like `kill -9`. */
export function armCrashPoint(point: CrashPoint): void {
  armed = point;
}

/** Publishes the name of each step that is about to run. Only tests listen. */
const steps = channel('holdfast:step');

export async function step<T>(name: StepName, work: () => Promise<T>): Promise<T> {
  steps.publish(name);
  dieIfArmed('before', name);
  const result = await work();
  dieIfArmed('after', name);
  return result;
}

function dieIfArmed(when: CrashPoint['when'], name: StepName): void {
  if (armed?.step !== name || armed.when !== when) return;
  if (++passes === (armed.pass ?? 1)) process.kill(process.pid, 'SIGKILL');
}
