import type { Config } from '../config/config.ts';
import { claimOf } from '../volume/claim.ts';
import { findVolume } from './find-volume.ts';
import { lookedIn, problemsOf, type SeenPool } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { printTable } from './table.ts';
import { type VolumeItem, volumeColumns, volumeDetails, volumeRow } from './tables/volumes.ts';

/** `holdfast volumes [VOLUME]`: every volume of this node, or all that is known of one. */
export async function volumesCommand(
  config: Config,
  output: Output,
  options: { json: boolean; wanted: string | undefined },
): Promise<number> {
  const pools = await lookAtPools(config, 'attachments');
  const problems = pools.flatMap(problemsOf);
  if (!options.json) for (const problem of problems) output.problem('UNAVAILABLE', problem);
  const all = pools.flatMap(volumesIn);
  const { wanted } = options;
  const volumes = wanted === undefined ? all : [findVolume(all, wanted, lookedIn(pools))];
  const now = new Date();
  if (options.json) {
    output.line(toJson<'volumes'>({ volumes, problems }));
  } else if (wanted === undefined) {
    const rows = volumes.map((volume) => volumeRow(volume, now));
    printTable(output, volumeColumns, { rows, none: 'There are no volumes.' });
  } else {
    for (const line of volumes.flatMap((volume) => volumeDetails(volume, now))) output.line(line);
  }
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The volumes of a pool that was looked at with their attachments. */
export function volumesIn({ config, contents }: SeenPool): VolumeItem[] {
  return (contents?.records ?? []).flatMap((record) => {
    const attachments = contents?.attachments.get(record.id);
    if (attachments === undefined) return [];
    const { ephemeral, ...fields } = record;
    return {
      ...fields,
      claim: claimOf(record),
      pool: config.name,
      usedBytes: contents?.usedBytes?.get(record.id),
      ...(ephemeral !== undefined && { ephemeral: { handle: ephemeral.handle } }),
      ...attachments,
      undeleteSeconds: record.undeleteSeconds ?? config.undeleteSeconds,
      // The oldest first.
      snapshots: (contents?.snapshots ?? []).filter(({ sourceId }) => sourceId === record.id),
    };
  });
}
