import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { sysfsNames } from '../../../kernel/file/sysfs.ts';
import { type DiskFinder, deviceNamed, readAttribute } from '../../cloud-disk/attached/finder.ts';
import type { NetworkDevice } from '../../network-disk/target.ts';

const wholeDisk = /^sd[a-z]+$/;

/**
 * Finds persistent disks by the name that their SCSI device reports in its page of identifiers (SPC, VPD page 83h). Links of udev
 * below /dev/disk/by-id come late, and may still lead to the disk that had the name before: they are not asked.
 */
export class GoogleFinder implements DiskFinder {
  readonly #root: string;

  /** @param root of sysfs, for tests */
  constructor(root = '/sys') {
    this.#root = root;
  }

  find(diskName: string): readonly NetworkDevice[] {
    return this.#namesOf(diskName).flatMap((name) => deviceNamed(this.#root, name));
  }

  /** NVMe disks say their names only in data of their namespaces, which the kernel does not show. */
  obstacle(): string | undefined {
    const hasNvme = sysfsNames(join(this.#root, 'block')).some(
      (name) => readAttribute(this.#root, name, 'device/model') === 'nvme_card-pd',
    );
    return hasNvme
      ? 'is not found: this node shows persistent disks as NVMe, without their names. Use a machine type with SCSI (docs/gce-pd.md)'
      : undefined;
  }

  /** The kernel asks a SCSI disk for its size once, and again only for this. */
  async rescan(queue: DiskQueue, diskName: string): Promise<void> {
    for (const name of this.#namesOf(diskName)) {
      const path = join(this.#root, 'block', name, 'device/rescan');
      await queue.run(() => writeFile(path, '1')).catch(ignoreMissing);
    }
  }

  #namesOf(diskName: string): readonly string[] {
    return sysfsNames(join(this.#root, 'block')).filter(
      (name) =>
        wholeDisk.test(name) &&
        readAttribute(this.#root, name, 'device/vendor') === 'Google' &&
        readAttribute(this.#root, name, 'device/model') === 'PersistentDisk' &&
        namesInPage83(readPage(join(this.#root, 'block', name, 'device/vpd_pg83'))).includes(diskName),
    );
  }
}

const headerBytes = 4;
const ascii = 2;

/** The identifiers of a disk itself that its vendor has given it, in letters. */
export function namesInPage83(page: Buffer): readonly string[] {
  const names: string[] = [];
  const end = page.length < headerBytes ? 0 : Math.min(page.length, headerBytes + page.readUInt16BE(2));
  for (let at = headerBytes; at + headerBytes <= end; ) {
    const codeSet = page.readUInt8(at) & 0x0f;
    const isOfDisk = (page.readUInt8(at + 1) & 0x30) === 0;
    const type = page.readUInt8(at + 1) & 0x0f;
    const next = at + headerBytes + page.readUInt8(at + 3);
    if (next > end) break;
    if (codeSet === ascii && isOfDisk && type === 0) {
      names.push(
        page
          .toString('latin1', at + headerBytes, next)
          .replaceAll('\0', '')
          .trim(),
      );
    }
    at = next;
  }
  return names;
}

/** Empty: it has none, or it is gone. */
function readPage(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if (!isErrno(error, 'ENODEV', 'EINVAL', 'EIO', 'ENXIO')) ignoreMissing(error);
    return Buffer.alloc(0);
  }
}
