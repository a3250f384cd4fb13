import type { DiskIdForm } from '../../cloud-disk/context.ts';

/** The vendor's driver has the same ids as volumeHandle, beside those of regional disks. */
export const gceDiskIds: DiskIdForm = {
  kind: 'gce-pd',
  pattern:
    /^projects\/(?!UNSPECIFIED\/)[A-Za-z0-9.:-]{1,99}\/zones\/[a-z]+-[a-z0-9-]{1,40}\/disks\/[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/,
  words: 'projects/PROJECT/zones/ZONE/disks/NAME of a zonal disk (regional and multi-zone disks are not supported)',
};

/** The name of a disk: this driver attaches each under it, and so its device on the node shows it. */
export function diskNameIn(diskId: string): string {
  return diskId.slice(diskId.lastIndexOf('/') + 1);
}

/** The zone in the path of a disk or a machine. */
export function zoneIn(path: string): string {
  return /\/zones\/([^/]+)\//.exec(path)?.[1] ?? '';
}
