import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DirectorySync, readIfThere } from '../../../kernel/file/file.ts';
import { indented, parseStored } from '../../../volume/stored-json.ts';
import { replaceFile } from '../../records/durable-file.ts';

/** A node's name to targets. */
export interface NvmeHost {
  readonly nqn: string;
  readonly id: string;
}

const document = z.strictObject({ format: z.literal(1), hostNqn: z.string(), hostId: z.uuid() });

/**
 * The name of this node to targets, made once. The one in /etc/nvme is the host's own, and equal on nodes that were cloned:
 * a target takes two hosts of one name for one. By this name connections of this driver differ from the host's.
 * @throws DataLoss if the file cannot be read
 */
export async function nvmeHost(queue: DiskQueue, dataDirectory: string): Promise<NvmeHost> {
  const path = join(dataDirectory, 'nvme-host.json');
  const text = await readIfThere(queue, path);
  if (text !== undefined) {
    const { hostId, hostNqn } = parseStored(document, text, `in ${path}`);
    return { id: hostId, nqn: hostNqn };
  }
  const id = randomUUID();
  const nqn = `nqn.2014-08.org.nvmexpress:uuid:${id}`;
  const stored: z.infer<typeof document> = { format: 1, hostNqn: nqn, hostId: id };
  await queue.run(() => mkdir(dataDirectory, { recursive: true, mode: 0o700 }));
  await replaceFile(queue, new DirectorySync(), path, indented(stored));
  return { id, nqn };
}
