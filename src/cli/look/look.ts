import { startAgain } from '../../command/again.ts';
import { type Config, processSource } from '../../config/config.ts';
import { expandPools, type PoolConfig } from '../../pool/kinds.ts';
import type { Wanted } from '../../pool/sight.ts';
import { placesForPool, type SeenPool } from './inventory.ts';
import { silentSight } from './silence.ts';

/** Messages that each process that looks sends to the command that was typed. */
export type Common =
  | { readonly kind: 'failed'; readonly message: string }
  /** Now and then. */
  | { readonly kind: 'alive' };

/** Messages of a process that looks at pools. */
export type LookerMessage = { readonly kind: 'pool'; readonly sight: SeenPool } | Common;

export const aliveEveryMs = 1_000;
/** A process that sends nothing for 15 s hangs as a whole. */
const goneAfterMs = 15_000;
/** On a node that is busy it takes long until its program is loaded: that says nothing of a pool. */
const startWithinMs = 60_000;

/**
 * Looks at all pools of the configuration. The kernel ends no process while one of its threads waits for a disk, so it
 * runs in a separate process, which may be left behind: this one touches no pool's disk, and ends in any case.
 */
export async function lookAtPools(config: Config, wanted: Wanted): Promise<SeenPool[]> {
  // The process that looks sees all of them, and those that have come meanwhile.
  const pools = await shownPools(config);
  if (pools.length === 0) return [];
  const sights = new Map<string, SeenPool>();
  await hearLooker<LookerMessage>({
    what: 'the pools',
    args: ['look-at-pools', wanted],
    threads: pools.length * placesForPool,
    hear: (message) => {
      if (message.kind === 'pool') sights.set(message.sight.config.name, message.sight);
      return pools.every(({ name }) => sights.has(name));
    },
  });
  return pools.map((pool) => sights.get(pool.name) ?? silentSight(pool, config, goneAfterMs));
}

/** A section without a disk is shown as such. */
async function shownPools({ dataDirectory, pools }: Config): Promise<readonly PoolConfig[]> {
  const expanded = await expandPools(pools, dataDirectory);
  const isEmpty = (section: PoolConfig) => !expanded.pools.some((pool) => pool.section === section.name);
  return [...expanded.pools, ...expanded.sections.filter(isEmpty)];
}

/** @typeParam Message `Common` among others */
interface Looker<Message> {
  /** For messages: what it looks at. */
  readonly what: string;
  /** The arguments of its process. */
  readonly args: readonly string[];
  /** The number of worker threads that its disks may take. */
  readonly threads: number;
  /** @returns whether all is said */
  hear(message: Message): boolean;
}

/** Hears what a process says that looks at disks, until all is said or it hangs. @throws if it fails */
export function hearLooker<Message>({ args, hear, threads, what }: Looker<Message>): Promise<void> {
  const threadPool = String(Math.min(threads + spareThreads, 1024));
  const environment = { ...processSource().environment, UV_THREADPOOL_SIZE: threadPool };
  const looker = startAgain(args, environment);
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
      resolve();
    };
    const fail = (reason: string) => {
      leave();
      reject(new Error(`${what} cannot be looked at: ${reason}`));
    };
    const notStarted = () => fail(`the process for it did not start within ${startWithinMs / 1000} s`);
    let timer = setTimeout(notStarted, startWithinMs);
    looker.on('message', (message: Message) => {
      clearTimeout(timer);
      timer = setTimeout(finish, goneAfterMs);
      if (isFailure(message)) fail(message.message);
      else if (hear(message)) finish();
    });
    looker.once('error', (error) => fail(error.message));
    looker.once('exit', (code, signal) => fail(`the process for it ended early (${signal ?? `exit code ${code}`})`));
  });
}

function isFailure(message: unknown): message is Extract<Common, { kind: 'failed' }> {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === 'failed';
}

/** Beside the disks': for the kernel's lists, and files of no pool. */
const spareThreads = 4;
