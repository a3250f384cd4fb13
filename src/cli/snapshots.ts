import type { Config } from '../config/config.ts';
import { problemsOf, type SeenPool } from './look/inventory.ts';
import { lookAtPools } from './look/look.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { type SnapshotItem, snapshotColumns, snapshotRow } from './output/tables/snapshots.ts';

/** `holdfast snapshots`: every snapshot of this node. */
export async function snapshotsCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const pools = await lookAtPools(config, 'records');
  const problems = pools.flatMap(problemsOf);
  const snapshots = snapshotsIn(pools);
  if (options.json) {
    output.line(toJson<'snapshots'>({ snapshots, problems }));
  } else {
    const now = new Date();
    const rows = snapshots.map((snapshot) => snapshotRow(snapshot, now));
    printTable(output, snapshotColumns, { rows, none: 'There are no snapshots.' });
    for (const problem of problems) output.problem('UNAVAILABLE', problem);
  }
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The snapshots of pools that were looked at. A copy that was left is shown only if no pool has the snapshot. */
export function snapshotsIn(pools: readonly SeenPool[]): SnapshotItem[] {
  const copies = pools.flatMap(({ config, contents }) =>
    (contents?.snapshots ?? []).map(({ left, ...record }) => ({ pool: config.name, ...record, movingTo: left })),
  );
  return [...Map.groupBy(copies, ({ id }) => id).values()].flatMap((each) => {
    const current = each.filter(({ movingTo }) => movingTo === undefined);
    return current.length > 0 ? current : each.slice(0, 1);
  });
}
