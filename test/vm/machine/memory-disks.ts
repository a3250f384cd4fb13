/**
 * A command that makes disks, /dev/sda and so on, of the virtual machine's own memory (scsi_debug): quick, alike, each with a
 * serial number, and able to discard. What is on them goes with the machine.
 */
export function makeMemoryDisks({ count, sizeMiB }: { readonly count: number; readonly sizeMiB: number }): string {
  return `modprobe -a sd_mod dm_mod dm-crypt && modprobe scsi_debug \
add_host=${count} per_host_store=1 dev_size_mb=${sizeMiB} delay=0 physblk_exp=3 lbpu=1 lbpws=1 && \
until [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${count} ]; do sleep 0.1; done`;
}
