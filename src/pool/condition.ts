import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { VolumeId } from '../volume/id.ts';
import type { Condition, Pool } from './pool.ts';
import { PoolQuarantined } from './quarantine.ts';

export function abnormal(message: string): Condition {
  return { abnormal: true, message };
}

/** A disk that has not answered after this is called silent; the kubelet's own patience is not much longer. */
export const silentAfterMs = 3_000;

/** The condition of a volume whose disk does not answer. */
export const silentCondition: Condition = abnormal(`The volume's disk has not answered for ${silentAfterMs / 1000} s.`);

/** A pool's statement about a volume. */
export interface PoolCondition {
  readonly condition: Condition;
  /** The pool is in quarantine: no other condition of the volume means anything. */
  readonly isSick: boolean;
}

/** The condition of a volume, from its pool. Never waits for a disk that hangs. */
export async function conditionIn(pool: Pool, id: VolumeId): Promise<Condition> {
  return (await askCondition(pool, id)).condition;
}

/** The same, and whether the pool is sick. */
export async function askCondition(pool: Pool, id: VolumeId): Promise<PoolCondition> {
  const answer = await withTimeout(silentAfterMs, ask(pool, id));
  return answer === 'late' ? { condition: silentCondition, isSick: false } : answer;
}

/** A volume of a list. */
export interface Listed {
  readonly pool: Pool;
  readonly id: VolumeId;
}

/** More would only wait for each other in the pool's queue. */
const asksAtOnce = 8;

/**
 * The conditions of many volumes, in their order. A few of each pool are asked for at a time, so that none is called silent
 * for the time that it waits for its turn. A volume is silent if its pool has not answered for that long; the rest of that
 * pool then are, too, and are not waited for.
 */
export async function conditionsIn(
  volumes: readonly Listed[],
  afterMs: number = silentAfterMs,
): Promise<readonly Condition[]> {
  const conditions: Condition[] = volumes.map(() => silentCondition);
  const byPool = new Map<Pool, number[]>(volumes.map(({ pool }) => [pool, []]));
  for (const [at, { pool }] of volumes.entries()) byPool.get(pool)?.push(at);
  const askAll = async (pool: Pool, places: readonly number[]) => {
    const waiting = places.values();
    let answeredMs = performance.now();
    let isSilent = false;
    const answerOf = async (id: VolumeId): Promise<Condition> => {
      const asked = ask(pool, id);
      const askedMs = performance.now();
      while (!isSilent) {
        const restMs = Math.max(askedMs, answeredMs) + afterMs - performance.now();
        const answer = restMs > 0 ? await withTimeout(restMs, asked) : 'late';
        if (answer !== 'late') {
          answeredMs = performance.now();
          return answer.condition;
        }
        if (performance.now() - Math.max(askedMs, answeredMs) >= afterMs) isSilent = true;
      }
      return silentCondition;
    };
    const worker = async () => {
      for (const at of waiting) {
        const id = volumes[at]?.id;
        if (id !== undefined && !isSilent) conditions[at] = await answerOf(id);
      }
    };
    await Promise.all(Array.from({ length: asksAtOnce }, worker));
  };
  await Promise.all([...byPool].map(([pool, places]) => askAll(pool, places)));
  return conditions;
}

function ask(pool: Pool, id: VolumeId): Promise<PoolCondition> {
  return pool.condition(id).then(
    (condition) => ({ condition, isSick: false }),
    (error: unknown) => {
      if (!(error instanceof PoolQuarantined)) throw error;
      return { condition: abnormal(error.summary), isSick: true };
    },
  );
}
