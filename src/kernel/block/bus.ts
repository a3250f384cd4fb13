import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import { sysfsNames } from '../file/sysfs.ts';

/** The buses that connect disks. */
export const buses = ['ata', 'mmc', 'network', 'nvme', 'scsi', 'usb', 'virtio', 'other'] as const;
export type Bus = (typeof buses)[number];

/**
 * Derives the bus from the device's position in sysfs, which lies in memory.
 * @param place target of the link in /sys/block
 * @param name the kernel's name
 */
export function busOf(place: string, name: string): Bus {
  if (/\/usb[0-9]+\//.test(place)) return 'usb';
  // iSCSI, Fibre Channel, NVMe over fabrics: other machines may have the same disk.
  if (/\/host[0-9]+\/(?:session[0-9]+|rport-[^/]+)\/|\/nvme-fabrics\//.test(place)) return 'network';
  if (isNvmeOfNetwork(place)) return 'network';
  if (name.startsWith('nvme')) return 'nvme';
  if (name.startsWith('mmcblk')) return 'mmc';
  if (/\/ata[0-9]+\//.test(place)) return 'ata';
  if (/\/host[0-9]+\//.test(place)) return 'scsi';
  return /\/virtio[0-9]+\//.test(place) ? 'virtio' : 'other';
}

/** Answers if the device above several paths of NVMe, which lies beside their controllers, has one over a network. */
function isNvmeOfNetwork(place: string): boolean {
  if (!/\/nvme-subsystem\/[^/]+\/nvme[0-9]+n[0-9]+$/.test(place)) return false;
  const subsystem = dirname(place);
  const paths = sysfsNames(subsystem).filter((name) => /^nvme[0-9]+$/.test(name));
  return paths.some((path) => ['fc', 'loop', 'rdma', 'tcp'].includes(transportAt(join(subsystem, path))));
}

function transportAt(controller: string): string {
  try {
    return readFileSync(join(controller, 'transport'), 'utf8').trim();
  } catch (error) {
    if (!isErrno(error, 'ENODEV')) ignoreMissing(error);
    return '';
  }
}
