import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { type DiskOptions, VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';
import { bundleForGuest } from './bundle.ts';

const mebibyte = 2 ** 20;
/** With what is ours on it, it has 64 MiB for its volume. */
const sizeBytes = 68 * mebibyte;
/** On a busy machine; alone it takes a minute. */
const timeoutMs = 1800_000;

const disks: readonly DiskOptions[] = [
  { name: 'usual', sizeBytes },
  { name: 'large-sectors', sizeBytes, sectorBytes: 4096 },
  { name: 'small', sizeBytes: 24 * mebibyte },
  { name: 'victim', sizeBytes },
  { name: 'copy', sizeBytes },
  { name: 'twin', sizeBytes: 24 * mebibyte },
  { name: 'other-twin', serial: 'twin', sizeBytes: 24 * mebibyte },
];
/** Nothing names it. */
const nameless: DiskOptions = { name: 'nameless', sizeBytes: 24 * mebibyte };

/**
 * Runs programs of this directory, each with the words behind its name, in a machine with blank disks, which it gets as NAME=DEVICE.
 * @returns their last words
 */
export function succeedInGuest(...programs: readonly string[]): Promise<string> {
  return runInGuest(programs, []);
}

/** The same with an XFS at /xfs, a disk for a volume group, and a second small one. */
export function succeedBesidePools(...programs: readonly string[]): Promise<string> {
  const sizeBytes = 2 ** 30;
  return runInGuest(programs, [
    { name: 'xfs', sizeBytes },
    { name: 'group', sizeBytes },
    { name: 'small-too', sizeBytes: 24 * mebibyte, bus: 'scsi' },
  ]);
}

async function runInGuest(programs: readonly string[], others: readonly DiskOptions[]): Promise<string> {
  using scratch = new Scratch('vm');
  using stack = new DisposableStack();
  const isScsi = ({ bus }: DiskOptions) => bus === 'scsi';
  const scsi = [...disks, ...others.filter(isScsi)].map((disk) =>
    stack.use(new VolatileDisk(scratch, { ...disk, bus: 'scsi' })),
  );
  const virtio = [nameless, ...others.filter((disk) => !isScsi(disk))].map((disk) =>
    stack.use(new VolatileDisk(scratch, disk)),
  );
  await using vm = await bootVirtualMachine({ scratch, disks: [...virtio, ...scsi] });
  if (others.length > 0) {
    await vm.run('modprobe -a xfs dm-crypt && mkfs.xfs -q /dev/vdb && mkdir -p /xfs && mount /dev/vdb /xfs');
  }
  await vm.run(
    `modprobe -a virtio_scsi sd_mod dm_mod && until [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${scsi.length} ]; do sleep 0.1; done`,
  );
  // In the order of their names on the bus.
  const found = (
    await vm.run('for d in /sys/block/sd*; do echo /dev/$(basename $d) $(tail -c +5 $d/device/vpd_pg80); done')
  )
    .trim()
    .split('\n')
    .map((line) => line.split(' '));
  const names = new Map<string, string>();
  for (const [device = '', serial = ''] of found) names.set(names.has(serial) ? `other-${serial}` : serial, device);
  const virtioNames = virtio.map(({ name }, index) => [name, `/dev/vd${'abc'.charAt(index)}`]);
  const words = [...names, ...virtioNames].map((pair) => pair.join('=')).join(' ');
  const directory = await bundleForGuest();
  const said: string[] = [];
  for (const program of programs) {
    const [name, ...chosen] = program.split(' ');
    const command = [process.execPath, `${directory}${name}.mjs`, ...chosen, words].join(' ');
    const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
    assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
    said.push(`${program}: ${/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200)}`);
  }
  return said.join('; ');
}
