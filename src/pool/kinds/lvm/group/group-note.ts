import { join } from 'node:path';
import { z } from 'zod';
import type { DiskIdentity } from '../../../../kernel/block/disk-identity.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { DirectorySync, readIfThere } from '../../../../kernel/file/file.ts';
import { indented, parseStored, storedBytes } from '../../../../volume/stored-json.ts';
import { removeFile, replaceFile } from '../../../records/durable-file.ts';
import { poolsDirectory } from '../../../records/pools-directory.ts';

/** A disk that was blank, and is on its way into a volume group. */
export interface BegunDisk {
  readonly disk: DiskIdentity;
  /** The UUID that it has, or will have, as a physical volume. */
  readonly pvUuid: string;
}

/** A volume group that is being made of disks, or to which they are being added. */
export interface BegunGroup {
  readonly volumeGroup: string;
  readonly disks: readonly BegunDisk[];
}

const document = z.strictObject({
  format: z.literal(1),
  volumeGroup: z.string(),
  disks: z.array(
    z.strictObject({ name: z.string(), sizeBytes: storedBytes, pvUuid: z.string().regex(/^[0-9a-f-]{38}$/) }),
  ),
});

/**
 * Says which disks were blank and are being taken. It is durable before the first byte is written to one of them, and gone
 * before the group is used: as long as it is there, there is no data on them that a user could miss.
 */
export class GroupNote {
  readonly path: string;
  /** The driver that makes the group holds its lock. */
  readonly lockPath: string;
  /** Each command of LVM that changes one of the disks has it locked. */
  readonly commandLockPath: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();

  constructor(queue: DiskQueue, dataDirectory: string, poolName: string) {
    this.#queue = queue;
    this.path = join(poolsDirectory(dataDirectory), `${poolName}.disks`);
    this.lockPath = `${this.path}.lock`;
    this.commandLockPath = `${this.path}.command.lock`;
  }

  /** @returns undefined if nothing was begun @throws DataLoss */
  async read(): Promise<BegunGroup | undefined> {
    const text = await readIfThere(this.#queue, this.path);
    if (text === undefined) return undefined;
    const { disks, volumeGroup } = parseStored(document, text, `in ${this.path}`);
    return {
      volumeGroup,
      disks: disks.map(({ name, pvUuid, sizeBytes }) => ({ pvUuid, disk: { name, sizeBytes: BigInt(sizeBytes) } })),
    };
  }

  async write({ disks, volumeGroup }: BegunGroup): Promise<void> {
    const stored: z.infer<typeof document> = {
      format: 1,
      volumeGroup,
      disks: disks.map(({ disk, pvUuid }) => ({ name: disk.name, sizeBytes: `${disk.sizeBytes}`, pvUuid })),
    };
    await replaceFile(this.#queue, this.#syncs, this.path, indented(stored));
  }

  /** No note is as good. */
  async clear(): Promise<void> {
    await removeFile(this.#queue, this.#syncs, this.path);
  }
}
