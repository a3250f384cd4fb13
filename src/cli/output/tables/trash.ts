import type { TrashedVolumeSight } from '../../../admin/protocol.ts';
import { formatBytes } from '../../../volume/size.ts';
import { claimText } from '../../look/find-volume.ts';
import { age, printable, shortened } from '../text.ts';

export const trashColumns = [
  { title: 'ID' },
  { title: 'CLAIM', flexible: true },
  { title: 'POOL', extra: 2 },
  { title: 'SIZE', align: 'right' },
  { title: 'USED', align: 'right', extra: 1 },
  { title: 'DELETED', align: 'right' },
  { title: 'PURGED IN', align: 'right' },
] as const;

export function trashRow(volume: TrashedVolumeSight, now: Date): string[] {
  return [
    volume.id,
    shortened(printable(titleOf(volume)), 44),
    volume.pool,
    formatBytes(BigInt(volume.sizeBytes)),
    formatBytes(BigInt(volume.usedBytes)),
    `${age(volume.deletedAt, now)} ago${volume.left === true ? ', by a move' : ''}`,
    age(now.toISOString(), new Date(volume.purgeAt)),
  ];
}

/** The name that people know: the claim, or the volume's name. */
function titleOf({ claim, name }: TrashedVolumeSight): string {
  return claim === undefined ? name : claimText(claim);
}
