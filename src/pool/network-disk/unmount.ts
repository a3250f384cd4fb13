import { setTimeout as delay } from 'node:timers/promises';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { unmountAt } from '../../kernel/mount/mount.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { mayShowAny } from '../../kernel/mount/mounts-of-device.ts';
import { mountsElsewhere } from '../../kernel/process/mounts-elsewhere.ts';
import { Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { PoolLog } from '../log.ts';
import type { UnmountPlace, VolumeOnNode } from '../node-side.ts';
import type { ConnectionNote } from './connection-notes.ts';
import { filesystemInUse } from './leave.ts';
import type { Target } from './target.ts';
import type { TargetState } from './target-state.ts';

export interface UnmountOptions<C> {
  readonly target: Target<C>;
  readonly queue: DiskQueue;
  /** Unmounts that wait for the server take all places of the other. */
  readonly beside: DiskQueue;
  /** For looks that must not wait for those. */
  readonly looks: DiskQueue;
  readonly state: TargetState<C>;
  readonly log: PoolLog;
}

/** An unmount waits this long for a server that does not answer. */
const silentAfterMs = 20_000;
const lookEveryMs = 500;
const lossMessage =
  'a target does not answer: its volumes are unmounted without the data that was not yet written to it';

const volumeLossMessage =
  'a target does not serve a volume any more: it is unmounted without the data that was not yet written to it';

type Named = Pick<VolumeOnNode, 'context' | 'handle'>;

/**
 * The last unmount of a filesystem writes back dirty pages. If the server does not answer, the connections are ended: then the
 * kernel gives up what no fsync has acknowledged, and nothing of it can reach the server later, when another node has the
 * volume. A lazy unmount could not promise that.
 */
export async function unmountVolume<C>(
  options: UnmountOptions<C>,
  volume: Named,
  { name, parent }: UnmountPlace,
): Promise<void> {
  const unmounting = options.queue.rescue((open) => unmountAt(open, parent, name));
  // It continues if the wait for it is given up.
  unmounting.catch(() => undefined);
  await whileLeaving(options, volume, async (watching) => {
    await Promise.race([unmounting, watching]);
    await unmounting;
  });
}

/** The kernel ends what waits for a connection that is gone, and then the filesystem. */
const endsWithinMs = 10_000;
/** An unmount out of sight is waited for this long in one call. */
const unseenMs = 45_000;

/**
 * An unmount whose call was given up, or whose driver was killed, goes on out of sight, and would wait for a server that is gone for as
 * long as that has connections: they are ended as for an unmount in sight. Returns at once if the server answers, or if the filesystem is
 * mounted in a container: it waits with that.
 * @throws Unavailable if they must not be
 */
export async function endUnmount<C>(options: UnmountOptions<C>, volume: Named): Promise<void> {
  const { state, target } = options;
  if (await isMounted(options, volume)) return;
  const wait = async (watching: Promise<void>, signal: AbortSignal) => {
    const during = async (goesOn: () => boolean | Promise<boolean>) => {
      while (await goesOn()) if (await isAborted(lookEveryMs, signal)) return;
    };
    const ended = during(() => filesystemInUse(target, state, volume) !== undefined);
    const answers = during(() => isSilent(options, volume));
    await Promise.race([ended, answers, watching.then(() => withTimeout(endsWithinMs, ended))]);
  };
  await whileLeaving(options, volume, wait, AbortSignal.timeout(unseenMs));
}

/** Waits for the end of an unmount, and ends the connections meanwhile if the server is silent (`watching`). */
async function whileLeaving<C>(
  options: UnmountOptions<C>,
  volume: Named,
  wait: (watching: Promise<void>, signal: AbortSignal) => Promise<void>,
  limit?: AbortSignal,
): Promise<void> {
  const { leaving } = options.state;
  const over = new AbortController();
  const signal = limit === undefined ? over.signal : AbortSignal.any([over.signal, limit]);
  leaving.add(volume.handle);
  const watching = endWhenSilent(options, volume, signal);
  try {
    await wait(watching, signal);
  } finally {
    leaving.delete(volume.handle);
    over.abort();
    // Else the volume could be given up that is staged again by then.
    await watching.catch(() => undefined);
  }
}

/**
 * Returns once the connections of a silent server are ended. A volume that its server does not serve is given up again and
 * again: multipathd may let it wait for the server once more.
 * @throws Unavailable if they must not be
 */
async function endWhenSilent<C>(options: UnmountOptions<C>, volume: Named, signal: AbortSignal): Promise<void> {
  let silentSinceMs: number | undefined;
  let end: End = 'served';
  while (end !== 'disconnected') {
    if (await isAborted(lookEveryMs, signal)) return;
    silentSinceMs = (await isSilent(options, volume)) ? (silentSinceMs ?? performance.now()) : undefined;
    if (signal.aborted) return;
    if (silentSinceMs === undefined || performance.now() - silentSinceMs < silentAfterMs) continue;
    end = await giveUpServer(options, volume, end);
    silentSinceMs = undefined;
  }
}

/** True also if that is not known. */
async function isMounted<C>({ looks, state, target }: UnmountOptions<C>, volume: Named): Promise<boolean> {
  const inUse = filesystemInUse(target, state, volume);
  if (inUse === undefined) return false;
  const table = [...(await readMountTable(looks)), ...(await mountsElsewhere())];
  return mayShowAny(looks, table, { devices: [inUse.device], mayAsk: false });
}

async function isSilent<C>({ looks, state, target }: UnmountOptions<C>, volume: Named): Promise<boolean> {
  const { note } = state.notes;
  return !isConnected(target, note) || (await target.isServed?.(looks, volume, note)) === false;
}

function isAborted(afterMs: number, signal: AbortSignal): Promise<boolean> {
  return delay(afterMs, signal.aborted, { signal }).catch(() => true);
}

type End = 'disconnected' | 'given up' | 'served';

function isConnected<C>(target: Target<C>, note: ConnectionNote<C>): boolean {
  return target.connections(note).some(({ isLive }) => isLive);
}

async function giveUpServer<C>(
  { beside, log, state, target }: UnmountOptions<C>,
  volume: Named,
  before: End,
): Promise<End> {
  const { leaving, notes } = state;
  const { handle } = volume;
  const user = notes.note.users.find((each) => !leaving.has(each));
  const foreign = target.connections(notes.note).find(({ isOurs }) => !isOurs);
  const isAlone = user === undefined && !isConnected(target, notes.note);
  if (!isAlone && foreign === undefined && (await target.giveUp?.(beside, volume, notes.note)) === true) {
    if (before !== 'given up') log.warn({ volume_id: handle, [target.nameKey]: target.name }, volumeLossMessage);
    return 'given up';
  }
  if (isConnected(target, notes.note)) return 'served';
  if (user !== undefined || foreign !== undefined) {
    const who = user === undefined ? `${foreign?.name}, which this driver has not connected,` : `volume ${user}`;
    throw new Unavailable(
      `volume ${handle} cannot be unmounted: ${target.name} does not answer, and ${who} waits for it, too. It is unmounted when the target answers, when that ends, or after ${target.lossKey}.`,
    );
  }
  log.warn({ volume_id: handle, [target.nameKey]: target.name }, lossMessage);
  await target.disconnect(beside, notes.note);
  return 'disconnected';
}
