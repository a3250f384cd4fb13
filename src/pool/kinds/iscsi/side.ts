import { setTimeout as delay } from 'node:timers/promises';
import { IscsiError, iscsiLogout } from '../../../command/iscsiadm.ts';
import { permanentNameOf } from '../../../kernel/block/disk-identity.ts';
import {
  deleteLun,
  type IscsiLun,
  type IscsiSession,
  multipathMapOver,
  rescanLun,
  scanLun,
} from '../../../kernel/block/iscsi.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, type HoldfastError, NotFound, Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { isHeld } from '../../network-disk/held.ts';
import { NetworkDiskSide } from '../../network-disk/side.ts';
import type { ConnectOptions, NetworkDevice, Target, TargetConnection } from '../../network-disk/target.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import { connectOne, isLive } from './connect.ts';
import { type Connection, type IscsiNote, isThrough, lunsOf, ourSessions, targets } from './connections.ts';
import { parseIscsiContext } from './context.ts';
import { identityIn, isUsedByAnother, placed, refusalOf } from './identity.ts';
import { ifaceName } from './record.ts';
import { iscsiRunner, missingProgram } from './runner.ts';

type Named = Pick<VolumeOnNode, 'context' | 'handle'>;

/** A session that was logged out goes a moment later. */
const gonePausesMs: readonly number[] = Array.from({ length: 40 }, () => 100);

export async function openIscsiSide(context: NodeSideContext): Promise<NodeSide> {
  const { dataDirectory, queue, server } = context;
  return new NetworkDiskSide(
    'iscsi',
    context,
    new IscsiTarget(server),
    await targets.open(queue, dataDirectory, server),
  );
}

class IscsiTarget implements Target<Connection> {
  readonly name: string;
  readonly nameKey = 'iqn';
  readonly noun = 'logical unit';
  readonly lossKey = 'replacementTimeout';

  constructor(iqn: string) {
    this.name = iqn;
  }

  async connect(volume: Named, options: ConnectOptions<Connection>): Promise<void> {
    await connectOne(volume, parseIscsiContext(volume.context), options);
  }

  async disconnect(queue: DiskQueue, note: IscsiNote): Promise<void> {
    const sessions = ourSessions(this.name, note);
    if (sessions.length === 0) return;
    const runner = await iscsiRunner(queue);
    if (runner === undefined) throw new FailedPrecondition(`${missingProgram}.`);
    let reason = 'it does not go';
    for (const { id } of sessions) {
      await step('iscsi/logout', () => iscsiLogout(runner, { iface: ifaceName, id })).catch((error: unknown) => {
        if (!(error instanceof IscsiError)) throw error;
        reason = error.isMissing ? missingProgram : error.message;
      });
    }
    for (const pauseMs of gonePausesMs) {
      if (ourSessions(this.name, note).length === 0) return;
      await delay(pauseMs);
    }
    throw new Unavailable(`a session to ${this.name} cannot be ended, and is tried again: ${reason}.`);
  }

  /** Sessions of other programs have separate devices. */
  connections(note: IscsiNote): TargetConnection[] {
    return ourSessions(this.name, note).map((each) => ({ name: each.name, isLive: isLive(each), isOurs: true }));
  }

  devicesOf({ context }: Named, note: IscsiNote): IscsiLun[] {
    return lunsOf(ourSessions(this.name, note), parseIscsiContext(context));
  }

  devicesOfOurs(note: IscsiNote): IscsiLun[] {
    return ourSessions(this.name, note).flatMap(({ luns }) => luns);
  }

  async rescan(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<void> {
    const found = this.devicesOf(volume, note);
    for (const lun of found) await rescanLun(queue, lun);
    const session = found.length > 0 ? undefined : this.#sessionFor(volume, note);
    const { lun } = parseIscsiContext(volume.context);
    if (session !== undefined) await step('iscsi/scan', () => scanLun(queue, session, lun));
  }

  /**
   * A logical unit is a number that a target gives to another volume one day: its identity is asked for again, and compared
   * with the one that the PersistentVolume names, and with that of the same use before.
   */
  async identify(queue: DiskQueue, volume: Named, device: NetworkDevice, note: IscsiNote): Promise<string> {
    for (const each of this.devicesOf(volume, note)) await rescanLun(queue, each);
    const map = multipathMapOver(device);
    if (map !== undefined) {
      throw new FailedPrecondition(
        `volume ${volume.handle}: multipathd of this node has taken ${device.name} (${map}): this driver uses one path. Leave the unit out there (blacklist in multipath.conf), then multipath -f ${map}.`,
      );
    }
    const name = await permanentNameOf(queue, device.device);
    const { lun, wwid } = parseIscsiContext(volume.context);
    const identity = name === undefined ? undefined : identityIn(name);
    const refusal = refusalOf(lun, identity, { wwid, seen: note.identities?.[volume.handle] });
    if (identity !== undefined && refusal === undefined) return placed(lun, identity);
    throw new FailedPrecondition(`volume ${volume.handle}: logical unit ${lun} of ${this.name} ${refusal}.`);
  }

  /** Devices that another volume, or another program, uses stay. */
  async drop(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<void> {
    const { lun } = parseIscsiContext(volume.context);
    if (isUsedByAnother(note, volume.handle, lun)) return;
    for (const each of this.devicesOf(volume, note)) {
      if (!(await isHeld(queue, each.devicePath))) await step('iscsi/delete', () => deleteLun(queue, each));
    }
  }

  notThere({ context, handle }: Named): HoldfastError {
    const { lun } = parseIscsiContext(context);
    return new NotFound(
      `volume ${handle}: ${this.name} has no logical unit ${lun} for this node: map it to the initiator name of the node, or correct the lun.`,
    );
  }

  isTwice({ context, handle }: Named, one: NetworkDevice, other: NetworkDevice): HoldfastError {
    const { lun } = parseIscsiContext(context);
    return new FailedPrecondition(
      `volume ${handle}: ${one.name} and ${other.name} are both logical unit ${lun} of ${this.name}. End the pods of its volumes, so that one session is left.`,
    );
  }

  #sessionFor({ context }: Named, note: IscsiNote): IscsiSession | undefined {
    const parsed = parseIscsiContext(context);
    return ourSessions(this.name, note).find((each) => isLive(each) && isThrough(parsed, each));
  }
}
