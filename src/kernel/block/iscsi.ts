import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';
import { sysfsNames, sysfsTarget, sysfsText } from '../file/sysfs.ts';

/*
 * Sessions of iSCSI as sysfs shows them (drivers/scsi/scsi_transport_iscsi.c). sysfs lies in memory: it is read on the main
 * thread. Each session of the software initiator has a separate SCSI host, so a scan of that host finds nothing of others.
 */

/** A logical unit through one session. */
export interface IscsiLun {
  /** A decimal number. */
  readonly lun: string;
  /** `2:0:0:1`. */
  readonly address: string;
  /** `sda`. */
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly sizeBytes: bigint;
}

export interface IscsiSession {
  readonly id: number;
  /** `session1`. */
  readonly name: string;
  readonly targetName: string;
  /** The name that the initiator gave its side of the session. */
  readonly ifaceName: string | undefined;
  /** `LOGGED_IN`, `FAILED`, `FREE`. */
  readonly state: string;
  /** The portal that was asked for; undefined: it has no connection. */
  readonly portal: { readonly address: string; readonly port: string } | undefined;
  /** The number of its SCSI host, and of the target on it. */
  readonly host: string;
  readonly targetId: string;
  readonly luns: readonly IscsiLun[];
}

/** The sessions to a target, of all programs. @param root of sysfs, for tests */
export function iscsiSessions(targetName: string, root = '/sys'): IscsiSession[] {
  const directory = join(root, 'class/iscsi_session');
  return sysfsNames(directory)
    .filter((name) => /^session[0-9]+$/.test(name) && attribute(join(directory, name), 'targetname') === targetName)
    .flatMap((name) => readSession(join(directory, name)) ?? [])
    .sort((a, b) => a.id - b.id);
}

function readSession(directory: string): IscsiSession | undefined {
  const device = sysfsTarget(join(directory, 'device'));
  if (device === undefined) return undefined;
  const name = basename(directory);
  return {
    id: Number(name.slice('session'.length)),
    name,
    targetName: attribute(directory, 'targetname') ?? '',
    ifaceName: attribute(directory, 'ifacename'),
    state: attribute(directory, 'state') ?? 'gone',
    portal: readPortal(device),
    host: basename(dirname(device)).slice('host'.length),
    targetId: attribute(directory, 'target_id') ?? '0',
    luns: sysfsNames(device)
      .filter((each) => /^target[0-9]+:/.test(each))
      .flatMap((each) => readLuns(join(device, each)))
      .sort((a, b) => Number(a.lun) - Number(b.lun)),
  };
}

function readPortal(session: string): IscsiSession['portal'] {
  for (const name of sysfsNames(session).filter((each) => /^connection[0-9]/.test(each))) {
    const directory = join(session, name, 'iscsi_connection', name);
    const address = attribute(directory, 'persistent_address');
    const port = attribute(directory, 'persistent_port');
    if (address !== undefined && port !== undefined) return { address, port };
  }
  return undefined;
}

function readLuns(target: string): IscsiLun[] {
  return sysfsNames(target)
    .filter((name) => /^[0-9]+:[0-9]+:[0-9]+:[0-9]+$/.test(name))
    .flatMap((address) => {
      const disks = join(target, address, 'block');
      return sysfsNames(disks).flatMap((name) => readLun(address, name, join(disks, name)) ?? []);
    });
}

function readLun(address: string, name: string, directory: string): IscsiLun | undefined {
  const [major, minor] = (attribute(directory, 'dev') ?? '').split(':').map(Number);
  const sectors = attribute(directory, 'size');
  if (major === undefined || minor === undefined || sectors === undefined) return undefined;
  const lun = address.slice(address.lastIndexOf(':') + 1);
  return {
    ...{ lun, address, name, devicePath: `/dev/${name}`, device: { major, minor } },
    sizeBytes: BigInt(sectors) * 512n,
  };
}

function attribute(directory: string, name: string): string | undefined {
  const text = sysfsText(join(directory, name));
  return text === '' || text === '<NULL>' ? undefined : text;
}

/** Has the session ask its target for one logical unit, and for no other. */
export async function scanLun(queue: DiskQueue, { host, targetId }: IscsiSession, lun: string): Promise<void> {
  const path = `/sys/class/scsi_host/host${host}/scan`;
  await queue.run(() => writeFile(path, `0 ${targetId} ${lun}`)).catch(ignoreMissing);
}

/** Has the kernel ask for the size and the identity of a logical unit again. */
export async function rescanLun(queue: DiskQueue, { address }: Pick<IscsiLun, 'address'>): Promise<void> {
  await queue.run(() => writeFile(`/sys/class/scsi_device/${address}/device/rescan`, '1')).catch(ignoreMissing);
}

/** Removes the device of a logical unit; gone is fine. The session stays. */
export async function deleteLun(queue: DiskQueue, { address }: Pick<IscsiLun, 'address'>): Promise<void> {
  await queue.run(() => writeFile(`/sys/class/scsi_device/${address}/device/delete`, '1')).catch(ignoreMissing);
}
