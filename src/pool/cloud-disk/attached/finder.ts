import { readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { parseDeviceNumber } from '../../../kernel/device.ts';
import { sysfsNames, sysfsText } from '../../../kernel/file/sysfs.ts';
import type { NetworkDevice } from '../../network-disk/target.ts';

/** Finds the devices of a cloud's disks on this machine. */
export interface DiskFinder {
  /** The devices with a serial number: one, unless something lies. Reads memory alone. */
  find(serial: string): readonly NetworkDevice[];
  /** The reason why no disk can be found on this machine, in words that follow its name; undefined: none is known. */
  obstacle?(): string | undefined;
  /** Has the kernel look at the size of the disk. */
  rescan(queue: DiskQueue, serial: string): Promise<void>;
}

const wholeDisk = /^nvme[0-9]+n[0-9]+$/;

/**
 * Finds NVMe disks by the serial number that their controller reports. Links of udev below /dev/disk/by-id come late, and may
 * still lead to the disk that had the name before: they are not asked.
 */
export class NvmeFinder implements DiskFinder {
  readonly #root: string;

  /** @param root of sysfs, for tests */
  constructor(root = '/sys') {
    this.#root = root;
  }

  find(serial: string): readonly NetworkDevice[] {
    const names = sysfsNames(join(this.#root, 'block')).filter((name) => wholeDisk.test(name));
    return names.flatMap((name) => {
      const isIt = readAttribute(this.#root, name, 'device/serial') === serial;
      return isIt ? deviceNamed(this.#root, name) : [];
    });
  }

  async rescan(queue: DiskQueue, serial: string): Promise<void> {
    for (const name of sysfsNames(join(this.#root, 'class/nvme'))) {
      const directory = join(this.#root, 'class/nvme', name);
      if (sysfsText(join(directory, 'serial')) !== serial) continue;
      // The disk tells of a new size itself, but one that was asleep may have missed it.
      await queue.run(() => writeFile(join(directory, 'rescan_controller'), '1')).catch(ignoreMissing);
    }
  }
}

/** Finds disks by links with the names of serial numbers, for tests where there are no NVMe disks (HOLDFAST_TEST_DISK_LINKS). */
export class LinkFinder implements DiskFinder {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  find(serial: string): readonly NetworkDevice[] {
    const name = linkedName(join(this.#directory, serial));
    if (name === undefined) return [];
    return deviceNamed('/sys', name).filter(({ sizeBytes }) => sizeBytes > 0n);
  }

  async rescan(): Promise<void> {}
}

function linkedName(path: string): string | undefined {
  try {
    return basename(readlinkSync(path));
  } catch (error) {
    return ignoreMissing(error);
  }
}

/** The device of this name, unless it is gone. @param root of sysfs */
export function deviceNamed(root: string, name: string): readonly NetworkDevice[] {
  const device = parseDeviceNumber(readAttribute(root, name, 'dev'));
  const sectors = readAttribute(root, name, 'size');
  if (device === undefined || sectors === undefined) return [];
  return [{ name, devicePath: `/dev/${name}`, device, sizeBytes: BigInt(sectors) * 512n }];
}

/** An attribute of a block device, in letters of one byte. @param root of sysfs */
export function readAttribute(root: string, name: string, attribute: string): string | undefined {
  return sysfsText(join(root, 'block', name, attribute));
}
