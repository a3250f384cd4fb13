import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { component } from './path.ts';

const renameat2Call = libcCall<readonly [Lent, string, Lent, string, number]>(
  'int renameat2(int from, const char *path, int to, const char *newPath, uint flags)',
);
const RENAME_NOREPLACE = 1;

/** A name in a directory that is open. */
export interface NamedIn {
  readonly directory: Descriptor;
  readonly name: string;
}

/**
 * Moves a file or directory in one step, and never over an existing name (renameat2(2)).
 * @throws KernelError EEXIST; EXDEV between two mounts, even of one filesystem; EBUSY if something is mounted on it
 */
export async function move(queue: DiskQueue, from: NamedIn, to: NamedIn): Promise<void> {
  const [name, newName] = [component(from.directory, from.name), component(to.directory, to.name)];
  const path = `${from.directory.path}/${name}`;
  await invoke(queue, renameat2Call, [from.directory, name, to.directory, newName, RENAME_NOREPLACE], path);
}
