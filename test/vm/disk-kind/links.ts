import type { GuestNode } from '../node/guest-node.ts';

const directory = '/dev/disk/by-id';

/** Where a disk is whose serial number is a name. */
export function linkOf(name: string): string {
  return `${directory}/scsi-${name}`;
}

/** What udev does: each link leads to the disk with that serial number, if there is one. */
const linkDisks = `mkdir -p ${directory} && rm -f ${directory}/scsi-* && for disk in /sys/block/sd*; do
  serial=$(tail -c +5 $disk/device/vpd_pg80 | tr -d '\\0') && ln -sf /dev/$(basename $disk) ${directory}/scsi-$serial || exit 1
done`;

export function prepareLinks(count: number): string {
  return `modprobe -a virtio_scsi sd_mod dm_mod\nuntil [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${count} ]; do sleep 0.1; done\n${linkDisks}`;
}

/** After a disk was pulled, or put back. */
export async function relink(node: GuestNode, count: number): Promise<void> {
  await node.vm.run(prepareLinks(count));
}
