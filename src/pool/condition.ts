import type { VolumeId } from '../volume/id.ts';
import { withTimeout } from '../volume/with-timeout.ts';
import type { Condition, Pool } from './pool.ts';
import { PoolQuarantined } from './quarantine.ts';

/** A disk that has not answered after this is called silent; the kubelet's own patience is not much longer. */
export const silentAfterMs = 3_000;

/** What is said of a volume whose disk does not answer. */
export const silentCondition: Condition = {
  abnormal: true,
  message: `The volume's disk has not answered for ${silentAfterMs / 1000} s.`,
};

/** What its pool says of a volume. */
export interface PoolCondition {
  readonly condition: Condition;
  /** The pool is in quarantine: no other condition of the volume means anything. */
  readonly isSick: boolean;
}

/** What its pool thinks of a volume. Never waits for a disk that hangs. */
export async function conditionIn(pool: Pool, id: VolumeId): Promise<Condition> {
  return (await askCondition(pool, id)).condition;
}

/** The same, and whether the pool is sick. */
export async function askCondition(pool: Pool, id: VolumeId): Promise<PoolCondition> {
  const asked = pool.condition(id).then(
    (condition) => ({ condition, isSick: false }),
    (error: unknown) => {
      if (!(error instanceof PoolQuarantined)) throw error;
      return { condition: { abnormal: true, message: error.summary }, isSick: true };
    },
  );
  const answer = await withTimeout(silentAfterMs, asked);
  return answer === 'late' ? { condition: silentCondition, isSick: false } : answer;
}
