import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { findHolders } from '../../kernel/process/holders.ts';
import { seesAllProcesses } from '../../kernel/process/process.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { describeHolders } from '../../volume/holder.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { soughtOf } from '../attached-mounts.ts';
import type { Backend } from '../backend.ts';
import { detachUnseen } from '../detach-unseen.ts';
import type { Attached } from '../pool.ts';
import type { CatalogParts } from './parts.ts';

/** The refusal for a volume that is attached on this node, with its holders and advice. */
export async function attachedHere(id: VolumeId, attached: Attached): Promise<FailedPrecondition> {
  const advice = 'end that first (see holdfast who)';
  const sought = soughtOf([attached]);
  // Where it is mounted is found quickly, and tells enough; the processes in it will come to an end with it.
  const mounts = await findHolders(sought, 'mounts');
  const found = mounts.holders.length > 0 ? mounts : await findHolders(sought, 'all');
  const through = attached.kind === 'device' ? ` through ${attached.devicePath},` : '';
  return new FailedPrecondition(`volume ${id} is in use${through} ${describeHolders(found)}; ${advice}.`);
}

/**
 * Users of a volume. A device that an unstage had to leave, because a process had it open, does not count once it is closed;
 * nor does a device that was activated by hand and is not open. Such devices are detached.
 */
export async function findUse(
  { backend: { attacher, queue, traits } }: { readonly backend: Pick<Backend, 'attacher' | 'queue' | 'traits'> },
  id: VolumeId,
): Promise<Attached | undefined> {
  const [attached] = await attacher.inUse(id);
  if (attached === undefined || traits.detaching !== 'explicit') return attached;
  const volume = { attached: () => attacher.attached(id), detach: (each: Attached) => attacher.detach(each) };
  await detachUnseen(queue, volume);
  return (await attacher.inUse(id))[0];
}

/**
 * A filesystem that is mounted nowhere and was left frozen keeps no volume in use.
 * @throws FailedPrecondition if the volume is attached on this node
 */
export async function refuseInUse(
  parts: Pick<CatalogParts, 'backend' | 'freezer'>,
  { content, id }: Pick<VolumeRecord, 'content' | 'id'>,
): Promise<void> {
  let attached = await findUse(parts, id);
  if (attached === undefined) return;
  const devices = await parts.backend.attacher.attached(id);
  if ((await parts.freezer.endUnseen({ id, content, attached: devices })) > 0) attached = await findUse(parts, id);
  if (attached !== undefined) throw await attachedHere(id, attached);
}

/** A look at all processes of a node takes longer than one at its mounts. */
const processesTimeoutMs = 20_000;

/**
 * A process with a directory of the volume open, or with its working directory in it, changes the volume where it is mounted nowhere.
 * @throws Unavailable if there is one, if there was no time to look, or if no process of the node can be seen: a move that waits
 * for the end of ordinary uses (FailedPrecondition) would not say so
 */
export async function refuseProcessesIn(queue: DiskQueue, path: string, id: VolumeId): Promise<void> {
  if (!(await seesAllProcesses(queue))) {
    throw new Unavailable(
      `volume ${id} cannot move: whether a program has it open cannot be seen without the processes of the node. Give the driver's pod hostPID: true.`,
    );
  }
  const { holders, isComplete } = await findHolders({ devices: [], directories: [path] }, 'all', processesTimeoutMs);
  // This driver looks at volumes itself, e.g. at the space that they take.
  const others = holders.filter((holder) => holder.kind !== 'process' || holder.pid !== process.pid);
  if (others.length === 0 && isComplete) return;
  const users = describeHolders({ holders: others, isComplete });
  throw new Unavailable(`volume ${id} is mounted nowhere, and in use ${users}: it moves once that has ended.`);
}
