import type { Config } from '../config/config.ts';
import type { VolumeContent } from '../volume/capability.ts';
import { formatDuration } from '../volume/duration.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { formatBytes } from '../volume/size.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import type { Attachments } from './attachments.ts';
import { problemsOf, type SeenPool } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { tableLines } from './table.ts';
import { age, printable, shortened } from './text.ts';

interface VolumeSight {
  readonly pool: string;
  readonly record: VolumeRecord;
  readonly attachments: Attachments;
  /** Those that were cut from it, the oldest first. */
  readonly snapshots: readonly SnapshotRecord[];
  /** How long it can be brought back after its deletion; 0: not at all. */
  readonly undeleteSeconds: number;
}

/** `holdfast volumes [ID]`: every volume of this node, or all that is known of one. */
export async function volumesCommand(
  config: Config,
  output: Output,
  options: { json: boolean; wanted: string | undefined },
): Promise<number> {
  const pools = await lookAtPools(config, 'attachments');
  const problems = pools.flatMap(problemsOf);
  const volumes = sightings(pools, options.wanted);
  if (!options.json) for (const problem of problems) output.problem(problem);
  if (options.wanted !== undefined && volumes.length === 0) {
    const names = pools.map(({ config: pool }) => pool.name).join(', ');
    output.problem(`there is no volume with the id or name '${printable(options.wanted)}' here (looked in: ${names})`);
    return exitCodes.failed;
  }
  if (options.json) output.line(toJson({ volumes: volumes.map(forPrograms), problems }));
  else if (options.wanted === undefined) printList(volumes, output);
  else for (const volume of volumes) printOne(volume, output);
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

function sightings(pools: readonly SeenPool[], wanted: string | undefined): VolumeSight[] {
  const volumes: VolumeSight[] = [];
  for (const { config, contents } of pools) {
    for (const record of contents?.records ?? []) {
      const attachments = contents?.attachments.get(record.id);
      if (attachments === undefined || (wanted !== undefined && record.id !== wanted && record.name !== wanted))
        continue;
      volumes.push({
        pool: config.name,
        record,
        attachments,
        snapshots: (contents?.snapshots ?? []).filter(({ sourceId }) => sourceId === record.id),
        undeleteSeconds: record.undeleteSeconds ?? config.undeleteSeconds,
      });
    }
  }
  return volumes;
}

const columns = [
  { title: 'ID' },
  { title: 'NAME' },
  { title: 'POOL' },
  { title: 'SIZE', align: 'right' },
  { title: 'CONTENT' },
  { title: 'SNAPSHOTS', align: 'right' },
  { title: 'STATE' },
  { title: 'AGE', align: 'right' },
] as const;

function printList(volumes: readonly VolumeSight[], output: Output): void {
  const now = new Date();
  const rows = volumes.map(({ pool, record, attachments, snapshots }) => [
    record.id,
    shortened(printable(record.name), 44),
    pool,
    formatBytes(record.sizeBytes),
    contentOf(record.content),
    String(snapshots.length),
    attachments.state,
    age(record.createdAt, now),
  ]);
  for (const line of tableLines(columns, rows)) output.line(line);
}

function printOne({ pool, record, attachments, snapshots, undeleteSeconds }: VolumeSight, output: Output): void {
  const { devices, stagedAt, publishedAt } = attachments;
  const mark = (readonly: boolean) => (readonly ? ' (read-only)' : '');
  const now = new Date();
  const pairs = { ...record.parameters, ...record.mutableParameters };
  const parameters = Object.entries(pairs).map(([key, value]) => printable(`${key}=${value}`));
  const { adopted, ephemeral, publication, source } = record;
  const facts: readonly (readonly [string, readonly string[]])[] = [
    ['ID', [record.id]],
    ['Name', [printable(record.name)]],
    ['Pool', [pool]],
    ['Size', [`${formatBytes(record.sizeBytes)} (${record.sizeBytes} bytes, ${record.provisioning})`]],
    ['Content', [contentOf(record.content)]],
    ['Access', record.accessModes],
    ['Created', [`${record.createdAt} (${age(record.createdAt, now)} ago)`]],
    ['Source', source === undefined ? [] : [`${source.type} ${source.id}`]],
    ['Adopted from', adopted === undefined ? [] : [printable(adopted.path)]],
    ['Inline', ephemeral === undefined ? [] : ["goes with its pod's mount"]],
    ['Undelete', [undeleteSeconds === 0 ? 'no: deleted is gone' : `for ${formatDuration(undeleteSeconds)}`]],
    ['Parameters', parameters],
    ['Snapshots', snapshots.map((cut) => `${cut.id} (${printable(cut.name)}, ${age(cut.createdAt, now)} ago)`)],
    ['Published to', publication === undefined ? [] : [printable(publication.nodeId)]],
    ['State', [attachments.state]],
    ['Device', devices.map(({ path, readonly }) => `${path}${mark(readonly)}`)],
    ['Staged at', stagedAt.map(printable)],
    ['Published at', publishedAt.map(({ path, readonly }) => `${printable(path)}${mark(readonly)}`)],
  ];
  for (const [title, values] of facts) {
    for (const [index, value] of values.entries()) output.line(`${(index === 0 ? title : '').padEnd(14)}${value}`);
  }
}

function contentOf(content: VolumeContent): string {
  return content.type === 'mount' ? content.fsType : content.type;
}

function forPrograms({ pool, record, attachments, snapshots, undeleteSeconds }: VolumeSight): object {
  return { pool, ...record, ...attachments, undeleteSeconds, snapshots };
}
