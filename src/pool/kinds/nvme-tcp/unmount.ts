import { setTimeout as delay } from 'node:timers/promises';
import { nvmeSubsystem } from '../../../kernel/block/nvme.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { unmountAt } from '../../../kernel/mount/mount.ts';
import { Unavailable } from '../../../volume/errors.ts';
import type { PoolLog } from '../../log.ts';
import type { UnmountPlace, VolumeOnNode } from '../../node-side.ts';
import { isOurs } from './connections.ts';
import { disconnectOurs } from './leave.ts';
import type { SubsystemState } from './subsystem-state.ts';

export interface UnmountOptions {
  readonly nqn: string;
  readonly queue: DiskQueue;
  /** Unmounts that wait for the server take all places of the other. */
  readonly beside: DiskQueue;
  readonly state: SubsystemState;
  readonly log: PoolLog;
}

/** An unmount waits this long for a server that does not answer. */
const silentAfterMs = 20_000;
const lookEveryMs = 500;

/**
 * The last unmount of a filesystem writes back dirty pages. If the server does not answer, the connections are ended: then the
 * kernel gives up what no fsync has acknowledged, and nothing of it can reach the server later, when another node has the
 * volume. A lazy unmount could not promise that.
 */
export async function unmountVolume(
  options: UnmountOptions,
  { handle }: Pick<VolumeOnNode, 'handle'>,
  { name, parent }: UnmountPlace,
): Promise<void> {
  const { queue, state } = options;
  const unmounting = queue.rescue((open) => unmountAt(open, parent, name));
  const over = new AbortController();
  state.leaving.add(handle);
  try {
    await Promise.race([unmounting, endWhenSilent(options, handle, over.signal)]);
    await unmounting;
  } finally {
    state.leaving.delete(handle);
    over.abort();
    // It continues if the wait for it was given up.
    unmounting.catch(() => undefined);
  }
}

/** Returns once the connections of a silent server are ended. @throws Unavailable if they must not be */
async function endWhenSilent(options: UnmountOptions, handle: string, signal: AbortSignal): Promise<void> {
  let silentSinceMs: number | undefined;
  for (;;) {
    await delay(lookEveryMs);
    if (signal.aborted) return;
    const isSilent = !nvmeSubsystem(options.nqn).controllers.some(({ state }) => state === 'live');
    silentSinceMs = isSilent ? (silentSinceMs ?? performance.now()) : undefined;
    if (silentSinceMs !== undefined && performance.now() - silentSinceMs >= silentAfterMs) {
      return await giveUpServer(options, handle);
    }
  }
}

async function giveUpServer({ beside, log, nqn, state }: UnmountOptions, handle: string): Promise<void> {
  const { leaving, notes } = state;
  const user = notes.note.users.find((each) => !leaving.has(each));
  const foreign = nvmeSubsystem(nqn).controllers.find((each) => !isOurs(notes.note, each));
  if (user !== undefined || foreign !== undefined) {
    const who = user === undefined ? `${foreign?.name}, which this driver has not connected,` : `volume ${user}`;
    throw new Unavailable(
      `volume ${handle} cannot be unmounted: ${nqn} does not answer, and ${who} waits for it, too. It is unmounted when the target answers, when that ends, or after ctrlLossTmo.`,
    );
  }
  log.warn(
    { volume_id: handle, nqn },
    'a target does not answer: its volumes are unmounted without the data that was not yet written to it',
  );
  await disconnectOurs(beside, notes, nqn);
}
