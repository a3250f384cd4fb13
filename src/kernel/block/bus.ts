/** The buses that connect disks. */
export const buses = ['ata', 'mmc', 'network', 'nvme', 'scsi', 'usb', 'virtio', 'other'] as const;
export type Bus = (typeof buses)[number];

/**
 * Derives the bus from the device's position in sysfs.
 * @param place target of the link in /sys/block
 * @param name the kernel's name
 */
export function busOf(place: string, name: string): Bus {
  if (/\/usb[0-9]+\//.test(place)) return 'usb';
  // iSCSI, Fibre Channel, NVMe over fabrics: other machines may have the same disk.
  if (/\/host[0-9]+\/(?:session[0-9]+|rport-[^/]+)\/|\/nvme-fabrics\//.test(place)) return 'network';
  if (name.startsWith('nvme')) return 'nvme';
  if (name.startsWith('mmcblk')) return 'mmc';
  if (/\/ata[0-9]+\//.test(place)) return 'ata';
  if (/\/host[0-9]+\//.test(place)) return 'scsi';
  return /\/virtio[0-9]+\//.test(place) ? 'virtio' : 'other';
}
