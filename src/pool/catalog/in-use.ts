import { findHolders } from '../../kernel/process/holders.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { describeHolders } from '../../volume/holder.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { soughtOf } from '../attached-mounts.ts';
import { detachUnseen } from '../detach-unseen.ts';
import type { Attached } from '../pool.ts';
import type { CatalogParts } from './parts.ts';

/** What cannot be done to a volume that is attached on this node: who has it, and what to do. */
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
 * What an unstage had to leave, as somebody had it open then, keeps no volume in use once nobody has. Nor does a
 * filesystem that is mounted nowhere and was left frozen.
 * @throws FailedPrecondition if the volume is attached on this node
 */
export async function refuseInUse(
  { backend: { attacher, queue, traits }, freezer }: Pick<CatalogParts, 'backend' | 'freezer'>,
  { content, id }: Pick<VolumeRecord, 'content' | 'id'>,
): Promise<void> {
  await freezer.endUnseen({ id, content, attached: await attacher.attached(id) });
  const [attached] = await attacher.inUse(id);
  if (attached === undefined) return;
  if (traits.detaching === 'explicit') {
    await detachUnseen(queue, attacher, id);
    if ((await attacher.inUse(id)).length === 0) return;
  }
  throw await attachedHere(id, attached);
}
