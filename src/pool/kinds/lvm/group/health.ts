import type { OwnLv } from './group-state.ts';

type Seen = Pick<OwnLv, 'attributes' | 'layout' | 'syncPercent'>;

/** One that is not ours: of a mirror of others nothing is known. */
type Any = Pick<OwnLv, 'attributes'> & Partial<Seen>;

/** The problem of a logical volume, by lvs(8); undefined: none that LVM knows. At most 128 bytes (L07). */
export function healthOf(lv: Any): string | undefined {
  const { attributes } = lv;
  switch (legTroubleOf(lv)) {
    case 'missing':
      return 'A disk of its mirror is missing: its data is there, but only once. Put it back, or see docs/lvm.md.';
    case 'out of step':
      return 'A disk of its mirror was away and is out of step: its data is there only once. See docs/lvm.md.';
  }
  if (attributes[8] === 'p')
    return 'A disk of its volume group is missing: a part of its data, or all of it, is not there.';
  if (attributes[8] === 'X') return 'Its state is not known to LVM (see lvs -o +lv_health_status).';
  if (attributes[4] === 'S' || attributes[4] === 's')
    return 'Its device is suspended: nothing can be read or written (see dmsetup info).';
  return undefined;
}

/** The reason why one of the legs of a mirror does not have all data of the volume. */
export function legTroubleOf({ attributes, layout }: Any): 'missing' | 'out of step' | undefined {
  if (layout !== 'raid1') return undefined;
  if (attributes[8] === 'p') return 'missing';
  return attributes[8] === 'r' ? 'out of step' : undefined;
}

/** The progress of a mirror whose second leg is still being written; LVM knows it while it is active. */
export function syncOf({ layout, syncPercent }: Seen): string | undefined {
  if (layout !== 'raid1' || syncPercent === '' || Number(syncPercent) >= 100) return undefined;
  return `The volume is healthy. Its mirror is being brought in step: ${syncPercent} % so far.`;
}
