import type { Config } from '../config/config.ts';
import { hasNode } from '../config/side.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { nodeKindsWith } from '../pool/kinds.ts';
import { lookAtNotes, type NotedSight } from '../pool/on-node/look.ts';
import { claimOf } from '../volume/claim.ts';
import { NotFound } from '../volume/errors.ts';
import { driverConditions } from './look/driver-word.ts';
import { findVolume } from './look/find-volume.ts';
import { lookedIn, problemsOf, type SeenPool } from './look/inventory.ts';
import { lookAtPools } from './look/look.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { printNoted } from './output/tables/noted-volumes.ts';
import { type VolumeItem, volumeColumns, volumeDetails, volumeRow } from './output/tables/volumes.ts';
import { printable } from './output/text.ts';

/** `holdfast volumes [VOLUME]`: every volume of this node, or all that is known of one. */
export async function volumesCommand(
  config: Config,
  output: Output,
  options: { json: boolean; wanted: string | undefined },
): Promise<number> {
  const pools = await lookAtPools(config, 'attachments');
  const problems = pools.flatMap(problemsOf);
  if (!options.json) for (const problem of problems) output.problem('UNAVAILABLE', problem);
  const conditions = await driverConditions(config);
  const all = pools.flatMap((pool) => volumesIn(pool, conditions));
  const { wanted } = options;
  const onNode = hasNode(config.side) ? await notedVolumes(config, output, options) : undefined;
  // A volume that this node uses need not be of a pool of this driver.
  const isNoted = config.side === 'node' || (wanted !== undefined && onNode !== undefined && onNode.length > 0);
  const volumes = wanted === undefined ? all : isNoted ? [] : [findVolume(all, wanted, lookedIn(pools))];
  const now = new Date();
  if (options.json) {
    output.line(toJson<'volumes'>({ volumes, onNode, problems }));
  } else if (isNoted) {
    printNoted(output, onNode ?? [], wanted);
  } else if (wanted === undefined) {
    const rows = volumes.map((volume) => volumeRow(volume, now));
    printTable(output, volumeColumns, { rows, none: 'There are no volumes.' });
  } else {
    for (const line of volumes.flatMap((volume) => volumeDetails(volume, now))) output.line(line);
  }
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The volumes that this node uses; with a wanted one, at most that. @throws NotFound if they alone could be wanted */
async function notedVolumes(
  { dataDirectory, programs, side }: Config,
  output: Output,
  { json, wanted }: { json: boolean; wanted: string | undefined },
): Promise<readonly NotedSight[]> {
  const { problems, volumes } = await lookAtNotes(dataDirectory, nodeKindsWith(programs), new DiskQueue('notes', 1));
  if (!json) for (const problem of problems) output.problem('WARNING', problem);
  const found = wanted === undefined ? volumes : volumes.filter(({ handle }) => handle === wanted);
  if (wanted !== undefined && found.length === 0 && side === 'node') {
    throw new NotFound(`volume ${printable(wanted)} is not in use on this node.`);
  }
  return found;
}

/**
 * The volumes of a pool that was looked at with their attachments.
 * @param conditions the problems of some of them
 */
export function volumesIn(
  { config, contents }: SeenPool,
  conditions: ReadonlyMap<string, string> = new Map(),
): VolumeItem[] {
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
      condition: conditions.get(record.id),
      undeleteSeconds: record.undeleteSeconds ?? config.undeleteSeconds,
      // The oldest first.
      snapshots: (contents?.snapshots ?? []).filter(
        ({ left, sourceId }) => sourceId === record.id && left === undefined,
      ),
    };
  });
}
