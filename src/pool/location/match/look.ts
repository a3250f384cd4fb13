import { explain } from '../../../kernel/call/explain.ts';
import { FailedPrecondition, HoldfastError } from '../../../volume/errors.ts';
import type { PoolSight } from '../../sight.ts';
import { diskOfPool, type MatchedPool, type PoolDisk } from './one-disk.ts';
import { describeMatch } from './read-match.ts';

/** Looks at a pool with `match` on its disk; if it has none yet, says which disk the driver takes, or why none. */
export async function lookOnDisk(pool: MatchedPool, look: (path: string) => Promise<PoolSight>): Promise<PoolSight> {
  let disk: PoolDisk;
  try {
    disk = await diskOfPool(pool);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const advice = explain(error).replace(`pool ${pool.poolName}: `, '');
    return without(pool, error instanceof FailedPrecondition ? 'broken' : 'absent', advice);
  }
  if (disk.isKnown) return look(disk.path);
  return without(pool, 'absent', `the driver takes ${disk.path} (${disk.identity}) for it at its next start.`);
}

function without({ match }: MatchedPool, state: 'absent' | 'broken', advice: string): PoolSight {
  return { location: { type: 'device', path: describeMatch(match), state, advice, holders: [] }, contents: undefined };
}
