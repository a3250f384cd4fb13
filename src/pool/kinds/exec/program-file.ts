import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { openFlags } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { ProgramConfig } from './config.ts';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
const writableByOthers = 0o022;
const executable = 0o111;

/**
 * Refuses a program that others than root can change or replace. Each directory on its path is root's alone, so the file
 * that was looked at here is the one that runs a moment later.
 * @throws FailedPrecondition
 */
export async function requireTrusted(
  queue: DiskQueue,
  { name, path }: Pick<ProgramConfig, 'name' | 'path'>,
): Promise<void> {
  await queue.run(async () => {
    const refuse = (words: string) => new FailedPrecondition(`program ${name} is not run: ${words}.`);
    try {
      const real = await realpath(path);
      if (real !== path) throw refuse(`${path} leads through a symbolic link: name ${real} in the configuration`);
      for (let directory = dirname(path); ; directory = dirname(directory)) {
        await requireRoots(directory, O_DIRECTORY, refuse);
        if (directory === '/') break;
      }
      await requireRoots(path, 0, refuse);
    } catch (error) {
      if (isErrno(error, 'ENOENT', 'ENOTDIR')) throw refuse(`there is no ${path} where this driver runs`);
      if (isErrno(error, 'ELOOP')) throw refuse(`${path} leads through a symbolic link`);
      throw error;
    }
  });
}

async function requireRoots(path: string, flags: number, refuse: (words: string) => Error): Promise<void> {
  // The open file is judged, not its name.
  await using file = await open(path, openFlags.O_PATH | O_NOFOLLOW | flags);
  const status = await file.stat();
  if (status.uid !== 0) throw refuse(`${path} belongs to user ${status.uid}: only root may own it`);
  if ((status.mode & writableByOthers) !== 0) {
    throw refuse(`others than root may write to ${path}: chmod go-w ${path}`);
  }
  if (status.isDirectory()) return;
  if (!status.isFile() || (status.mode & executable) === 0) throw refuse(`${path} is no executable file`);
}
