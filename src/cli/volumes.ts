import type { Config } from '../config/config.ts';
import type { VolumeContent } from '../volume/capability.ts';
import { claimOf } from '../volume/claim.ts';
import { formatDuration } from '../volume/duration.ts';
import type { Encryption } from '../volume/encryption.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { formatBytes } from '../volume/size.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import type { Attachments } from './attachments.ts';
import { claimText, findVolume, type Known } from './find-volume.ts';
import { lookedIn, problemsOf, type SeenPool } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import type { Shape } from './shapes.ts';
import { tableLines } from './table.ts';
import { age, printable, shortened } from './text.ts';

interface VolumeSight extends Known {
  readonly record: VolumeRecord;
  readonly attachments: Attachments;
  /** What its data takes in the pool; undefined: it takes too long to find out. */
  readonly usedBytes: bigint | undefined;
  /** Those that were taken of it, the oldest first. */
  readonly snapshots: readonly SnapshotRecord[];
  /** How long it can be brought back after its deletion; 0: not at all. */
  readonly undeleteSeconds: number;
}

/** `holdfast volumes [VOLUME]`: every volume of this node, or all that is known of one. */
export async function volumesCommand(
  config: Config,
  output: Output,
  options: { json: boolean; wanted: string | undefined },
): Promise<number> {
  const pools = await lookAtPools(config, 'attachments');
  const problems = pools.flatMap(problemsOf);
  if (!options.json) for (const problem of problems) output.problem('UNAVAILABLE', problem);
  const all = pools.flatMap(sightings);
  const { wanted } = options;
  const volumes = wanted === undefined ? all : [findVolume(all, wanted, lookedIn(pools))];
  if (options.json) output.line(toJson<'volumes'>({ volumes: volumes.map(forPrograms), problems }));
  else if (wanted === undefined) printList(volumes, output);
  else for (const volume of volumes) printOne(volume, output);
  return problems.length > 0 ? exitCodes.failed : exitCodes.ok;
}

function sightings({ config, contents }: SeenPool): VolumeSight[] {
  return (contents?.records ?? []).flatMap((record) => {
    const { id, name } = record;
    const attachments = contents?.attachments.get(id);
    if (attachments === undefined) return [];
    return {
      id,
      name,
      claim: claimOf(record),
      pool: config.name,
      record,
      attachments,
      usedBytes: contents?.usedBytes?.get(id),
      snapshots: (contents?.snapshots ?? []).filter(({ sourceId }) => sourceId === id),
      undeleteSeconds: record.undeleteSeconds ?? config.undeleteSeconds,
    };
  });
}

const columns = [
  { title: 'ID' },
  { title: 'CLAIM' },
  { title: 'NAME' },
  { title: 'POOL' },
  { title: 'SIZE', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'CONTENT' },
  { title: 'SNAPSHOTS', align: 'right' },
  { title: 'STATE' },
  { title: 'AGE', align: 'right' },
] as const;

function printList(volumes: readonly VolumeSight[], output: Output): void {
  const now = new Date();
  const rows = volumes.map(({ claim, pool, record, attachments, snapshots, usedBytes }) => [
    record.id,
    claim === undefined ? '-' : shortened(printable(claimText(claim)), 44),
    shortened(printable(record.name), 44),
    pool,
    formatBytes(record.sizeBytes),
    usedBytes === undefined ? '-' : formatBytes(usedBytes),
    contentOf(record.content),
    String(snapshots.length),
    attachments.state,
    age(record.createdAt, now),
  ]);
  for (const line of tableLines(columns, rows)) output.line(line);
}

function printOne(volume: VolumeSight, output: Output): void {
  const { attachments, claim, pool, record, snapshots, undeleteSeconds, usedBytes } = volume;
  const { devices, stagedAt, publishedAt } = attachments;
  const mark = (readonly: boolean) => (readonly ? ' (read-only)' : '');
  const now = new Date();
  const pairs = { ...record.parameters, ...record.mutableParameters };
  const parameters = Object.entries(pairs).map(([key, value]) => printable(`${key}=${value}`));
  const { adopted, ephemeral, publication, source } = record;
  const facts: readonly (readonly [string, readonly string[]])[] = [
    ['ID', [record.id]],
    ['Name', [printable(record.name)]],
    ['Claim', claim === undefined ? [] : [printable(claimText(claim))]],
    ['Pool', [pool]],
    ['Size', [`${formatBytes(record.sizeBytes)} (${record.sizeBytes} bytes, ${record.provisioning})`]],
    ['Used', usedBytes === undefined ? [] : [`${formatBytes(usedBytes)} (${usedBytes} bytes)`]],
    ['Content', [contentOf(record.content)]],
    ['Encryption', record.encryption === undefined ? [] : [needs(record.encryption)]],
    ['Access', record.accessModes],
    ['Created', [`${record.createdAt} (${age(record.createdAt, now)} ago)`]],
    ['Source', source === undefined ? [] : [`${source.type} ${source.id}`]],
    ['Adopted from', adopted === undefined ? [] : [printable(adopted.path)]],
    ['Inline', ephemeral === undefined ? [] : ["goes with its pod's mount"]],
    ['Undelete', [undeleteSeconds === 0 ? 'no: deleted is gone' : `for ${formatDuration(undeleteSeconds)}`]],
    ['Parameters', parameters],
    ['Snapshots', snapshots.map((cut) => `${cut.id} (${snapshotFacts(cut, now).join(', ')})`)],
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

function needs({ keyId, type }: Encryption): string {
  return `${type}, opens with ${keyId}`;
}

function snapshotFacts({ createdAt, encryption, name }: SnapshotRecord, now: Date): string[] {
  return [printable(name), `${age(createdAt, now)} ago`, ...(encryption === undefined ? [] : [needs(encryption)])];
}

function contentOf(content: VolumeContent): string {
  return content.type === 'mount' ? content.fsType : content.type;
}

function forPrograms(volume: VolumeSight): Shape<'volumes'>['volumes'][number] {
  const { attachments, claim, pool, record, snapshots, undeleteSeconds, usedBytes } = volume;
  const { ephemeral, ...fields } = record;
  return {
    ...fields,
    claim,
    pool,
    usedBytes,
    ...(ephemeral !== undefined && { ephemeral: { handle: ephemeral.handle } }),
    ...attachments,
    undeleteSeconds,
    snapshots,
  };
}
