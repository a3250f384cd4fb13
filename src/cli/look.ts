import { startAgain } from '../command/again.ts';
import { type Config, processSource } from '../config/config.ts';
import type { Wanted } from '../pool/sight.ts';
import { placesForPool, type SeenPool } from './inventory.ts';
import { silentSight } from './silence.ts';

/** A message from the looking process to the command. */
export type LookerMessage =
  | { readonly kind: 'pool'; readonly index: number; readonly sight: SeenPool }
  | { readonly kind: 'failed'; readonly message: string }
  /** Sent every `aliveEveryMs`. */
  | { readonly kind: 'alive' };

export const aliveEveryMs = 1_000;
/** The looking process is silent for so long only if all of it hangs. */
const goneAfterMs = 15_000;

/**
 * Looks at all configured pools, in a second process. The kernel cannot end a process while one of its threads waits for
 * a disk: the second process may be left behind, while this one touches no pool's disk and always ends.
 */
export function lookAtPools(config: Config, wanted: Wanted): Promise<SeenPool[]> {
  const threads = config.pools.length * placesForPool + spareThreads;
  const environment = { ...processSource().environment, UV_THREADPOOL_SIZE: String(Math.min(threads, 1024)) };
  const looker = startAgain(['look-at-pools', wanted], environment);
  const sights = new Map<number, SeenPool>();
  return new Promise((resolve, reject) => {
    const leave = () => {
      clearTimeout(timer);
      looker.removeAllListeners();
      looker.on('error', () => undefined);
      if (looker.connected) looker.disconnect();
      looker.kill('SIGKILL');
      looker.unref();
    };
    const finish = () => {
      leave();
      resolve(config.pools.map((pool, index) => sights.get(index) ?? silentSight(pool, config, goneAfterMs)));
    };
    const fail = (reason: string) => {
      leave();
      reject(new Error(`the pools cannot be looked at: ${reason}`));
    };
    const timer = setTimeout(finish, goneAfterMs);
    looker.on('message', (message: LookerMessage) => {
      timer.refresh();
      if (message.kind === 'failed') fail(message.message);
      if (message.kind === 'pool') sights.set(message.index, message.sight);
      if (sights.size === config.pools.length) finish();
    });
    looker.once('error', (error) => fail(error.message));
    looker.once('exit', (code, signal) => fail(`the process for it ended early (${signal ?? `exit code ${code}`})`));
  });
}

/** Threads for the kernel's lists and for files of no pool. */
const spareThreads = 4;
