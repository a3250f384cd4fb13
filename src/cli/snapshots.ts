import type { Config } from '../config/config.ts';
import { formatBytes } from '../volume/size.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import { problemsOf } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { tableLines } from './table.ts';
import { age, printable, shortened } from './text.ts';

const columns = [
  { title: 'ID' },
  { title: 'NAME' },
  { title: 'POOL' },
  { title: 'SOURCE' },
  { title: 'SIZE', align: 'right' },
  { title: 'GROUP' },
  { title: 'KEY' },
  { title: 'AGE', align: 'right' },
] as const;

/** `holdfast snapshots`: every snapshot of this node. */
export async function snapshotsCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const pools = await lookAtPools(config, 'records');
  const problems = pools.flatMap(problemsOf);
  const snapshots = pools.flatMap(({ config: pool, contents }) =>
    (contents?.snapshots ?? []).map((record) => ({ pool: pool.name, record })),
  );
  if (options.json) {
    output.line(
      toJson<'snapshots'>({ snapshots: snapshots.map(({ pool, record }) => ({ pool, ...record })), problems }),
    );
  } else {
    const now = new Date();
    const rows = snapshots.map(({ pool, record }) => rowOf(pool, record, now));
    for (const line of tableLines(columns, rows)) output.line(line);
    for (const problem of problems) output.problem('UNAVAILABLE', problem);
  }
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

function rowOf(pool: string, record: SnapshotRecord, now: Date): string[] {
  return [
    record.id,
    shortened(printable(record.name), 44),
    pool,
    record.sourceId,
    formatBytes(record.sizeBytes),
    record.groupId ?? '-',
    record.encryption?.keyId ?? '-',
    age(record.createdAt, now),
  ];
}
