import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { countDisks } from '../kernel/block/disks.ts';
import { expandPools, openPool, type PoolConfig, standsForSeveral, watchSections } from '../pool/kinds.ts';
import { type PoolOpener, Pools } from '../pool/pools.ts';
import { withTimeout } from '../volume/with-timeout.ts';

/** Beside those that there are when the driver starts: more are pools after its next start. */
const disksToCome = 8;
/** To find disks takes longer only where one hangs. */
const findingPatienceMs = 30_000;

/** How many pools there may be: each is given worker threads when the driver starts. Takes none itself. */
export function mostPools(pools: readonly PoolConfig[]): number {
  const sections = pools.filter(standsForSeveral).length;
  return pools.length - sections + (sections === 0 ? 0 : disksThatMatch());
}

function disksThatMatch(): number {
  return countDisks() + disksToCome;
}

/** All pools of this node: those of the configuration, and those of disks that its sections match. */
export interface NodePools {
  readonly pools: Pools;
  /** Finds disks that match, and goes on with that. Resolves when those that are there now were found. */
  find(): Promise<void>;
  stopFinding(): void;
}

export async function makePools(config: Config, log: Logger, threadsEach: number): Promise<NodePools> {
  const { dataDirectory, lockTimeoutMs } = config;
  const opener =
    (pool: PoolConfig, patienceMs: number): PoolOpener =>
    (queue, stopping) =>
      openPool(pool, { dataDirectory, lockTimeoutMs: patienceMs, stopping, queue, log });
  const expanded = await expandPools(config.pools, dataDirectory);
  const configured = new Map(expanded.pools.map((pool) => [pool.name, pool]));
  const openers = expanded.pools.map((pool) => [pool.name, opener(pool, lockTimeoutMs)] as const);
  const pools = new Pools(new Map(openers), config.defaultPool, {
    threadsEach,
    sickAfterMs: (name) => configured.get(name)?.sickAfterMs ?? 0,
    labels: (name) => configured.get(name)?.labels ?? {},
    sectionOf: (name) => configured.get(name)?.section,
    sections: expanded.sections.map(({ name }) => name),
    log,
  });
  if (expanded.sections.length === 0) return { pools, find: async () => undefined, stopFinding: () => undefined };
  const members = expanded.pools.filter(({ section }) => section !== undefined);
  const watch = await watchSections(config.pools, {
    dataDirectory,
    log,
    mostPools: disksThatMatch() - members.length,
    add(pool) {
      configured.set(pool.name, pool);
      // One that another driver has is that one's: it is not waited for.
      return pools.add(pool.name, opener(pool, 0), async () => {
        const now = await expandPools(config.pools, dataDirectory);
        return now.pools.some(({ name }) => name === pool.name);
      });
    },
  });
  const stopped = Promise.withResolvers<void>();
  return {
    pools,
    async find() {
      const found = Promise.race([watch.start(), stopped.promise]);
      if ((await withTimeout(findingPatienceMs, found)) === 'late') {
        log.warn('a disk that matches takes long to be looked at; it is not waited for');
      }
      pools.settle();
    },
    stopFinding() {
      watch.stop();
      stopped.resolve();
    },
  };
}
