import { explain } from '../../kernel/call/explain.ts';
import { lookAtRecords } from '../catalog/look.ts';
import type { Configured, LookRequest, ReadyBackend } from '../kind.ts';
import type { PoolSight } from '../sight.ts';

/** Looks at the disks that a cloud has of a pool. @param open without long waits: a person looks */
export async function lookAtCloudPool<Own extends { readonly poolId: string }>(
  pool: Configured<Own>,
  request: LookRequest,
  open: () => Promise<ReadyBackend>,
): Promise<PoolSight> {
  const place = { type: 'cloud', path: pool.own.poolId, holders: [] } as const;
  try {
    const { backend } = await open();
    const { records: reader, space: source, traits } = backend;
    const held = await lookAtRecords(pool, { reader, source, wanted: request.wanted });
    await backend.close();
    return {
      location: { ...place, state: 'open', advice: undefined },
      contents: { ...held, traits, findings: [], shown: new Map() },
    };
  } catch (error) {
    return { location: { ...place, state: 'silent', advice: explain(error) }, contents: undefined };
  }
}

/** For looks at a pool: a person waits. */
export const lookTimes = { pausesMs: [], timeoutMs: 5_000 } as const;
