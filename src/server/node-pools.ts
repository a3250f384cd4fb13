import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { countDisks } from '../kernel/block/disks.ts';
import { expandPools, openPool, othersOf, type PoolConfig, standsForSeveral, watchSections } from '../pool/kinds.ts';
import { type PoolOpener, Pools } from '../pool/pools.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';

/** Reserve for disks that are added later: more become pools after the next start. */
const disksToCome = 8;
/** Finding disks takes longer only where one hangs. */
const findingTimeoutMs = 30_000;

/** The maximum number of pools: each gets worker threads when the driver starts. Uses no worker thread itself. */
export function maxPools(pools: readonly PoolConfig[]): number {
  const sections = pools.filter(standsForSeveral).length;
  return pools.length - sections + (sections === 0 ? 0 : disksThatMatch());
}

function disksThatMatch(): number {
  return countDisks() + disksToCome;
}

/** All pools of this node: those of the configuration, and those on disks that its sections match. */
export interface NodePools {
  readonly pools: Pools;
  /** Starts to find matching disks, and continues. Resolves once the disks that are present now were found. */
  find(): Promise<void>;
  stopFinding(): void;
}

export async function makePools(config: Config, log: Logger, threadsEach: number): Promise<NodePools> {
  const { cloudEnvironment: environment, dataDirectory, lockTimeoutMs, nodeId: nodeName } = config;
  const others = othersOf(config.pools, dataDirectory);
  const opener =
    (pool: PoolConfig, ownTimeoutMs: number): PoolOpener =>
    (queue, stopping) =>
      openPool(pool, {
        dataDirectory,
        nodeName,
        lockTimeoutMs: ownTimeoutMs,
        stopping,
        queue,
        log,
        others,
        environment,
      });
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
    maxPools: disksThatMatch() - members.length,
    add(pool) {
      configured.set(pool.name, pool);
      // A disk that another driver has belongs to that driver: no waiting for the lock.
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
      if ((await withTimeout(findingTimeoutMs, found)) === 'late') {
        log.warn('examining a matching disk takes too long; going on without it');
      }
      pools.settle();
    },
    stopFinding() {
      watch.stop();
      stopped.resolve();
    },
  };
}
