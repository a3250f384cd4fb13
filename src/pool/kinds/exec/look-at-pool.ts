import { lookAtRecords } from '../../catalog/look.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import { lookInLocation } from '../../location/look.ts';
import { FileRecords } from '../../records/file-records.ts';
import { Layout } from '../../records/layout.ts';
import type { PoolSight } from '../../sight.ts';
import type { ExecPoolOptions } from './config.ts';
import { ExecSpace } from './space.ts';
import { execTraits } from './traits.ts';

/** Looks at the records of a pool. Its program is not run. */
export async function lookAtExecPool(pool: Configured<ExecPoolOptions>, request: LookRequest): Promise<PoolSight> {
  const { own } = pool;
  const { queue, wanted } = request;
  const location = { type: 'directory', path: own.records } as const;
  return lookInLocation({ ...request, poolName: pool.name, poolKind: 'exec', location }, async ({ source: root }) => {
    const layout = new Layout(root);
    const source = new ExecSpace({ queue, layout, reserve: { bytes: 0n, hostBytes: 0n } }, undefined);
    const held = await lookAtRecords(pool, { reader: new FileRecords({ queue, layout }), source, wanted });
    const traits = own.program === undefined ? {} : execTraits(own.program);
    return { ...held, traits, findings: [], shown: new Map() };
  });
}
