import { explain } from '../../../kernel/call/explain.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import type { PoolSight } from '../../sight.ts';
import type { EbsPoolOptions } from './config.ts';
import { openEbsBackend } from './open.ts';

/** Looks at the disks that EC2 has of a pool. */
export async function lookAtEbsPool(pool: Configured<EbsPoolOptions>, request: LookRequest): Promise<PoolSight> {
  const { name, own } = pool;
  const place = { type: 'cloud', path: own.poolId, holders: [] } as const;
  try {
    const { backend } = await openEbsBackend({ ...request, ...own, name, pausesMs: [], timeoutMs: 5_000 });
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
