import { existsSync } from 'node:fs';
import { type FileHandle, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';
import { sysfsNames, sysfsText } from '../file/sysfs.ts';

/*
 * NVMe over fabrics, by the kernel's own interface: a line of options written to /dev/nvme-fabrics connects a controller
 * (drivers/nvme/host/fabrics.c), and sysfs shows the connections. sysfs lies in memory: it is read on the main thread.
 */

/** A connection to a subsystem: one path to its namespaces. */
export interface NvmeController {
  /** `nvme0`. */
  readonly name: string;
  readonly transport: string;
  /** `traddr=10.0.0.1,trsvcid=4420`, and more. */
  readonly address: ReadonlyMap<string, string>;
  /** `live`, `connecting`, `resetting`, `deleting`, … */
  readonly state: string;
  /** undefined: a kernel before 5.10, or no fabric. */
  readonly hostNqn: string | undefined;
}

/** A namespace as its users have it: with several paths the one device above them. */
export interface NvmeNamespace {
  /** `nvme0n1`. */
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly sizeBytes: bigint;
  /** 32 lower-case hexadecimal digits; undefined: it has none. */
  readonly uuid: string | undefined;
  readonly nguid: string | undefined;
}

export interface NvmeSubsystem {
  readonly nqn: string;
  readonly controllers: readonly NvmeController[];
  readonly namespaces: readonly NvmeNamespace[];
}

export const fabricsPath = '/dev/nvme-fabrics';
const subsystemsPath = '/sys/class/nvme-subsystem';
const namespaceName = /^nvme[0-9]+n[0-9]+$/;
const controllerName = /^nvme[0-9]+$/;

/** True if the kernel can be asked to connect. /dev lies in memory. */
export function hasFabrics(): boolean {
  return existsSync(fabricsPath);
}

/** The subsystem with this name, as far as it is connected. Its controllers may be in several entries of sysfs. */
export function nvmeSubsystem(nqn: string): NvmeSubsystem {
  const directories = sysfsNames(subsystemsPath)
    .map((name) => join(subsystemsPath, name))
    .filter((directory) => sysfsText(join(directory, 'subsysnqn')) === nqn);
  const controllers = directories.flatMap((directory) => named(directory, controllerName).map(readController));
  const namespaces = directories.flatMap((directory) => {
    const shared = named(directory, namespaceName);
    // Without native multipath each controller has its own devices.
    const places =
      shared.length > 0 ? shared : named(directory, controllerName).flatMap((each) => named(each, namespaceName));
    return places.flatMap((place) => readNamespace(place) ?? []);
  });
  return { nqn, controllers, namespaces };
}

function named(directory: string, pattern: RegExp): string[] {
  return sysfsNames(directory)
    .filter((name) => pattern.test(name))
    .map((name) => join(directory, name));
}

function readController(directory: string): NvmeController {
  const words = (sysfsText(join(directory, 'address')) ?? '').split(',').map((word) => word.split('='));
  return {
    name: directory.slice(directory.lastIndexOf('/') + 1),
    transport: sysfsText(join(directory, 'transport')) ?? '',
    address: new Map(words.map(([key = '', value = '']) => [key, value])),
    state: sysfsText(join(directory, 'state')) ?? 'gone',
    hostNqn: sysfsText(join(directory, 'hostnqn')),
  };
}

function readNamespace(directory: string): NvmeNamespace | undefined {
  const [major, minor] = (sysfsText(join(directory, 'dev')) ?? '').split(':').map(Number);
  const sectors = sysfsText(join(directory, 'size'));
  if (major === undefined || minor === undefined || sectors === undefined) return undefined;
  const name = directory.slice(directory.lastIndexOf('/') + 1);
  return {
    name,
    devicePath: `/dev/${name}`,
    device: { major, minor },
    sizeBytes: BigInt(sectors) * 512n,
    uuid: hexDigits(sysfsText(join(directory, 'uuid'))),
    nguid: hexDigits(sysfsText(join(directory, 'nguid'))),
  };
}

/** An identity without its dashes; undefined: not one, or all zeros, which stands for none. */
export function hexDigits(text: string | undefined): string | undefined {
  const digits = text?.replaceAll('-', '').toLowerCase() ?? '';
  return /^[0-9a-f]{32}$/.test(digits) && !/^0+$/.test(digits) ? digits : undefined;
}

/** Options of a connection, in the kernel's words. No value has a comma. */
export type NvmeConnection = Readonly<Record<string, string>>;

/** The names of the options that the kernel takes; none before Linux 5.17, which does not say. */
export async function nvmeOptions(queue: DiskQueue): Promise<ReadonlySet<string>> {
  try {
    const text = await queue.run(async () => {
      await using file = await open(fabricsPath, 'r+');
      return await readSome(file);
    });
    return new Set(text.split(',').map((option) => option.split('=')[0] ?? ''));
  } catch (error) {
    if (isErrno(error, 'EINVAL')) return new Set();
    throw error;
  }
}

async function readSome(file: FileHandle): Promise<string> {
  const memory = Buffer.alloc(4096);
  const { bytesRead } = await file.read(memory, 0, memory.length, null);
  return memory.toString('latin1', 0, bytesRead).trim();
}

/**
 * Connects a controller. @throws EALREADY if this host has that path already, ENOENT without the module
 * @returns the name of the controller
 */
export async function connectNvme(queue: DiskQueue, connection: NvmeConnection): Promise<string> {
  const line = Object.entries(connection)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
  const answer = await queue.run(async () => {
    await using file = await open(fabricsPath, 'r+');
    await file.write(line);
    return await readSome(file);
  });
  const [, instance] = /^instance=([0-9]+),/.exec(answer) ?? [];
  if (instance === undefined) throw new Error(`${fabricsPath} does not name the controller: ${answer}`);
  return `nvme${instance}`;
}

/** Ends a connection; gone is fine. Returns when its devices are gone, if it was the last path to them. */
export async function disconnectNvme(queue: DiskQueue, { name }: Pick<NvmeController, 'name'>): Promise<void> {
  await queue.run(() => writeFile(`/sys/class/nvme/${name}/delete_controller`, '1')).catch(ignoreMissing);
}

/** Has the controller look for new namespaces and sizes. */
export async function rescanNvme(queue: DiskQueue, { name }: Pick<NvmeController, 'name'>): Promise<void> {
  await queue.run(() => writeFile(`/sys/class/nvme/${name}/rescan_controller`, '1')).catch(ignoreMissing);
}
