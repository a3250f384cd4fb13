import type { VolumeContent } from '../../../volume/capability.ts';
import { formatDuration } from '../../../volume/duration.ts';
import type { Encryption } from '../../../volume/encryption.ts';
import { formatBytes } from '../../../volume/size.ts';
import { claimText } from '../../look/find-volume.ts';
import type { Shape } from '../shapes.ts';
import { age, printable, shortened } from '../text.ts';

export type VolumeItem = Shape<'volumes'>['volumes'][number];

export const volumeColumns = [
  { title: 'ID' },
  { title: 'CLAIM', flexible: true },
  { title: 'NAME', extra: 1 },
  { title: 'POOL', extra: 4 },
  { title: 'SIZE', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'CONTENT', extra: 2 },
  { title: 'SNAPSHOTS', align: 'right', extra: 3 },
  { title: 'STATE' },
  { title: 'AGE', align: 'right', extra: 5 },
] as const;

export function volumeRow(volume: VolumeItem, now: Date): string[] {
  const { claim, content, createdAt, id, name, pool, sizeBytes, snapshots, state, usedBytes } = volume;
  return [
    id,
    claim === undefined ? '-' : shortened(printable(claimText(claim)), 44),
    shortened(printable(name), 44),
    pool,
    formatBytes(BigInt(sizeBytes)),
    usedBytes === undefined ? '-' : formatBytes(BigInt(usedBytes)),
    contentOf(content),
    String(snapshots.length),
    state,
    age(createdAt, now),
  ];
}

/** All that is known of one; of a volume of another node, with its name. */
export function volumeDetails(volume: VolumeItem, now: Date, node?: string): string[] {
  const { accessModes, claim, content, devices, encryption, pool, provisioning, publishedAt, snapshots } = volume;
  const { adopted, createdAt, ephemeral, publication, source, stagedAt, state, undeleteSeconds, usedBytes } = volume;
  const mark = (readonly: boolean) => (readonly ? ' (read-only)' : '');
  const pairs = { ...volume.parameters, ...volume.mutableParameters };
  const parameters = Object.entries(pairs).map(([key, value]) => printable(`${key}=${value}`));
  const sizeBytes = BigInt(volume.sizeBytes);
  const facts: readonly (readonly [string, readonly string[]])[] = [
    ['ID', [volume.id]],
    ['Name', [printable(volume.name)]],
    ['Claim', claim === undefined ? [] : [printable(claimText(claim))]],
    ['Node', node === undefined ? [] : [node]],
    ['Pool', [pool]],
    ['Size', [`${formatBytes(sizeBytes)} (${sizeBytes} bytes, ${provisioning})`]],
    ['Used', usedBytes === undefined ? [] : [`${formatBytes(BigInt(usedBytes))} (${usedBytes} bytes)`]],
    ['Content', [contentOf(content)]],
    ['Encryption', encryption === undefined ? [] : [needs(encryption)]],
    ['Access', accessModes],
    ['Created', [`${createdAt} (${age(createdAt, now)} ago)`]],
    ['Source', source === undefined ? [] : [`${source.type} ${source.id}`]],
    ['Adopted from', adopted === undefined ? [] : [printable(adopted.path)]],
    ['Inline', ephemeral === undefined ? [] : ["goes with its pod's mount"]],
    ['Undelete', [undeleteSeconds === 0 ? 'no: deleted is gone' : `for ${formatDuration(undeleteSeconds)}`]],
    ['Parameters', parameters],
    ['Snapshots', snapshots.map((cut) => `${cut.id} (${snapshotFacts(cut, now).join(', ')})`)],
    ['Published to', publication === undefined ? [] : [printable(publication.nodeId)]],
    ['State', [state]],
    ['Condition', volume.condition === undefined ? [] : [printable(volume.condition)]],
    ['Device', devices.map(({ path, readonly }) => `${path}${mark(readonly)}`)],
    ['Staged at', stagedAt.map(printable)],
    ['Published at', publishedAt.map(({ path, readonly }) => `${printable(path)}${mark(readonly)}`)],
  ];
  return facts.flatMap(([title, values]) =>
    values.map((value, index) => `${(index === 0 ? title : '').padEnd(14)}${value}`),
  );
}

function needs({ keyId, type }: Pick<Encryption, 'keyId' | 'type'>): string {
  return `${type}, opens with ${keyId}`;
}

function snapshotFacts({ createdAt, encryption, name }: VolumeItem['snapshots'][number], now: Date): string[] {
  return [printable(name), `${age(createdAt, now)} ago`, ...(encryption === undefined ? [] : [needs(encryption)])];
}

function contentOf(content: VolumeContent): string {
  return content.type === 'mount' ? content.fsType : content.type;
}
