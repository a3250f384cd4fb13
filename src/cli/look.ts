import { startAgain } from '../command/again.ts';
import { type Config, processSource } from '../config/config.ts';
import type { Wanted } from '../pool/sight.ts';
import { placesForPool, type SeenPool } from './inventory.ts';
import { silentSight } from './silence.ts';

/** What the process that looks says to the one that was typed. */
export type LookerMessage =
  | { readonly kind: 'pool'; readonly index: number; readonly sight: SeenPool }
  | { readonly kind: 'failed'; readonly message: string }
  /** Now and then. */
  | { readonly kind: 'alive' };

export const aliveEveryMs = 1_000;
/** It says nothing for so long only if it hangs as a whole. */
const goneAfterMs = 15_000;
/** On a node that is busy it takes long until its program is loaded: that says nothing of a pool. */
const startWithinMs = 60_000;

/**
 * Looks at all pools of the configuration. The kernel ends no process while one of its threads waits for a disk, so it
 * is done in a process of its own, which may be left behind: this one touches no pool's disk, and ends in any case.
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
    const notStarted = () => fail(`the process for it did not start within ${startWithinMs / 1000} s`);
    let timer = setTimeout(notStarted, startWithinMs);
    looker.on('message', (message: LookerMessage) => {
      clearTimeout(timer);
      timer = setTimeout(finish, goneAfterMs);
      if (message.kind === 'failed') fail(message.message);
      if (message.kind === 'pool') sights.set(message.index, message.sight);
      if (sights.size === config.pools.length) finish();
    });
    looker.once('error', (error) => fail(error.message));
    looker.once('exit', (code, signal) => fail(`the process for it ended early (${signal ?? `exit code ${code}`})`));
  });
}

/** Beside the pools': for the kernel's lists, and files of no pool. */
const spareThreads = 4;
