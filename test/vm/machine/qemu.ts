import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { spawnWithUs } from '../../support/child.ts';
import { Monitor } from './monitor.ts';

/** A disk as the machine has it. */
export interface Drive {
  readonly name: string;
  /** Where its blocks are served (NBD). */
  readonly socketPath: string;
  readonly bus: 'virtio' | 'scsi';
  /** Of one on scsi. */
  readonly serial: string;
  /** The smallest piece that it reads and writes, of one on scsi. */
  readonly sectorBytes: number;
}

export interface QemuOptions {
  readonly kernel: string;
  readonly initramfs: string;
  readonly drives: readonly Drive[];
  /** Where the host listens for the agent's serial port. */
  readonly agentSocketPath: string;
  readonly consolePath: string;
  /** Where QEMU itself takes commands (monitor.ts). */
  readonly monitorPath: string;
  readonly memoryMiB: number;
  readonly clock: Clock;
  readonly network: Network | undefined;
  /** How many NVMe disks can be plugged in while it runs. */
  readonly nvmePorts: number;
  /** Has SCSI, into which Google's disks can be plugged while it runs. */
  readonly hasScsi: boolean;
}

/** A network card: this machine is 10.0.2.2 there, and it is 10.0.2.15 (QEMU's user networking). */
export interface Network {
  /** TCP ports of the machine that are reached at an address of this one, under the same number. */
  readonly forwardedPorts: readonly number[];
  /** That address: 127.0.0.1 unless it says another. */
  readonly forwardedAddress?: string;
  /** More ports, which lead to another address of the machine, that it gives itself. */
  readonly second?: { readonly address: string; readonly ports: readonly number[] };
}

/**
 * Where a machine's time comes from: the host's clock, or its own processor, of which each instruction takes a nanosecond. Then
 * it does not matter what else the host has to do.
 */
export type Clock = 'host' | 'instructions';

/**
 * Starts a machine: without KVM, which few test machines have. One processor: with two it needs more of the host's time to do
 * the same.
 */
export function startQemu(options: QemuOptions): ChildProcess {
  const output = openSync(options.consolePath, 'a');
  const command = ['qemu-system-x86_64', ...qemuArguments(options)];
  const child = spawnWithUs(command, { stdio: ['ignore', output, output] });
  closeSync(output);
  return child;
}

function qemuArguments(options: QemuOptions): string[] {
  const { agentSocketPath, clock, consolePath, drives, initramfs, kernel, memoryMiB, monitorPath } = options;
  return [
    '-nodefaults',
    '-no-user-config',
    ...['-display', 'none', '-no-reboot', '-qmp', `unix:${monitorPath},server=on,wait=off`],
    ...['-machine', 'q35', '-accel', 'tcg', '-cpu', 'max', '-m', `${memoryMiB}`],
    ...(clock === 'instructions' ? ['-icount', 'shift=0'] : []),
    ...['-kernel', `${kernel}/vmlinux`, '-initrd', initramfs, '-append', kernelCommandLine],
    ...['-chardev', `file,id=console,path=${consolePath},append=on`, '-serial', 'chardev:console'],
    ...['-device', 'virtio-serial-pci', '-chardev', `socket,id=agent,path=${agentSocketPath}`],
    ...['-device', 'virtserialport,chardev=agent,name=agent'],
    ...['-object', 'rng-random,id=random,filename=/dev/urandom', '-device', 'virtio-rng-pci,rng=random'],
    ...['-fsdev', 'local,id=host,path=/,security_model=none,readonly=on,multidevs=remap'],
    ...['-device', 'virtio-9p-pci,fsdev=host,mount_tag=host'],
    ...networkArguments(options.network),
    ...(options.hasScsi || drives.some(({ bus }) => bus === 'scsi') ? ['-device', 'virtio-scsi-pci'] : []),
    ...drives.flatMap(driveArguments),
    ...Array.from({ length: options.nvmePorts }, (_, at) => portArguments(at)).flat(),
  ];
}

function networkArguments(network: Network | undefined): string[] {
  if (network === undefined) return [];
  const { forwardedAddress = '127.0.0.1', forwardedPorts, second } = network;
  const forward = (port: number, to: string) => `hostfwd=tcp:${forwardedAddress}:${port}-${to}:${port}`;
  const forwarded = [
    ...forwardedPorts.map((port) => forward(port, '')),
    ...(second?.ports.map((port) => forward(port, second.address)) ?? []),
  ];
  return [
    '-netdev',
    ['user', 'id=network', ...forwarded].join(','),
    '-device',
    'virtio-net-pci,netdev=network,romfile=',
  ];
}

/**
 * What the kernel tests of itself takes a second that shows nothing; so does what it does against the host's CPU. The
 * clock is one that needs no calibration: on a busy host that goes wrong, and seconds there are tenths of seconds here.
 */
const kernelCommandLine = [
  'console=ttyS0',
  'quiet',
  'loglevel=5',
  'panic=-1',
  'oops=panic',
  'mitigations=off',
  'cryptomgr.notests',
  'clocksource=hpet',
  'no_timer_check',
  'notsc',
].join(' ');

/** In the order of the list: /dev/vda, /dev/vdb; or /dev/sda. */
function driveArguments(drive: Drive): string[] {
  return ['-blockdev', JSON.stringify(blockNode(drive)), '-device', JSON.stringify(diskDevice(drive))];
}

/** Where the disk's blocks are, as QEMU and its monitor take it. */
function blockNode({ name, socketPath }: Drive) {
  return { driver: 'nbd', 'node-name': name, server: { type: 'unix', path: socketPath } };
}

/** The disk as the machine sees it. One on scsi has a serial number. */
function diskDevice({ bus, name, sectorBytes, serial }: Drive) {
  const common = { drive: name, id: `disk-${name}`, 'write-cache': 'on' };
  if (bus !== 'scsi') return { driver: 'virtio-blk-pci', ...common };
  return { driver: 'scsi-hd', serial, logical_block_size: sectorBytes, physical_block_size: sectorBytes, ...common };
}

/** A system lets go within a second; on a busy machine it takes longer. */
const unplugPatienceMs = 30_000;
const unplugTries = 5;

/** A place into which a disk can be plugged, as a slot of PCI Express. */
function portArguments(at: number): string[] {
  return ['-device', `pcie-root-port,id=port${at},chassis=${at + 1},slot=${at + 1}`];
}

/** An NVMe disk with its own controller, as clouds attach them. */
export interface NvmeDisk {
  readonly name: string;
  readonly serial: string;
  /** Its blocks: a file of this machine. */
  readonly path: string;
  readonly port: number;
}

/** A SCSI disk as Google attaches them: its page of identifiers has the name. */
export interface GoogleDisk {
  readonly name: string;
  readonly diskName: string;
  readonly path: string;
}

export type PluggedDisk = NvmeDisk | GoogleDisk;

export async function plugDisk(monitorPath: string, disk: PluggedDisk): Promise<void> {
  using monitor = await Monitor.connect(monitorPath);
  const { name, path } = disk;
  const file = { driver: 'file', filename: path, locking: 'off' };
  await monitor.execute('blockdev-add', { driver: 'raw', 'node-name': name, file });
  const device =
    'port' in disk
      ? { driver: 'nvme', serial: disk.serial, bus: `port${disk.port}` }
      : { driver: 'scsi-hd', vendor: 'Google', product: 'PersistentDisk', device_id: disk.diskName };
  await monitor.execute('device_add', { ...device, id: `disk-${name}`, drive: name });
}

/** The cloud has made it larger: its device says so. */
export async function resizeDisk(
  monitorPath: string,
  { name }: Pick<PluggedDisk, 'name'>,
  sizeBytes: number,
): Promise<void> {
  using monitor = await Monitor.connect(monitorPath);
  await monitor.execute('block_resize', { 'node-name': name, size: sizeBytes });
}

/** Takes a disk out of a machine that runs, and waits until the machine has let it go. */
export async function unplugDisk(monitorPath: string, { name }: Pick<PluggedDisk | Drive, 'name'>): Promise<void> {
  using monitor = await Monitor.connect(monitorPath);
  // For the system in there this is a wish, which it may ignore while it is at work on the slot.
  for (let asked = 1; ; asked++) {
    const refusal = await monitor.execute('device_del', { id: `disk-${name}` }).catch((error: Error) => error);
    if (await monitor.happened('DEVICE_DELETED', unplugPatienceMs)) break;
    if (asked === unplugTries) {
      throw new Error(`the virtual machine does not let go of the disk ${name}`, { cause: refusal });
    }
  }
  await monitor.execute('blockdev-del', { 'node-name': name });
}

/** Puts it back. */
export async function addDrive(monitorPath: string, drive: Drive): Promise<void> {
  using monitor = await Monitor.connect(monitorPath);
  await monitor.execute('blockdev-add', blockNode(drive));
  await monitor.execute('device_add', diskDevice(drive));
}
