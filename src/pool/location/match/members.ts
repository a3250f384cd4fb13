import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { DirectorySync, readIfThere } from '../../../kernel/file/file.ts';
import { parseJsonInput } from '../../../volume/parse-input.ts';
import { step } from '../../../volume/step.ts';
import { replaceFile } from '../../records/durable-file.ts';
import { poolsDirectory } from '../../records/pools-directory.ts';

/** A pool that this node has had on a disk that was matched. */
export interface Member {
  readonly poolName: string;
  /** Section of the configuration; that of a pool with one disk has the pool's name. */
  readonly section: string;
  /** The disk's permanent name. */
  readonly identity: string;
}

const suffix = '.matched';
const memberFile = z.strictObject({ format: z.literal(1), section: z.string(), disk: z.string() });

/**
 * The pools that this node has had on disks that were matched. A file for each lies in the data directory from before its first
 * volume: so it stays a pool, whatever becomes of the section's `match`, and one whose disk is away is known to be missing.
 */
export async function readMembers(queue: DiskQueue, dataDirectory: string): Promise<Member[]> {
  const directory = poolsDirectory(dataDirectory);
  const names = (await queue.run(() => readdir(directory)).catch(ignoreMissing)) ?? [];
  const members: Member[] = [];
  for (const name of names.filter((each) => each.endsWith(suffix)).sort()) {
    const text = await readIfThere(queue, join(directory, name));
    const parsed = text === undefined ? undefined : parseJsonInput(memberFile, text);
    // One that cannot be read says nothing: the disk is found by its label.
    if (parsed === undefined || !('data' in parsed)) continue;
    const { disk, section } = parsed.data;
    members.push({ poolName: name.slice(0, -suffix.length), section, identity: disk });
  }
  return members;
}

/** The members of existing sections. Of two on one disk, after a section was renamed and renamed back, the first counts. */
export function membersOf(members: readonly Member[], sections: readonly string[]): Member[] {
  const current = members.filter(({ section }) => sections.includes(section));
  return current.filter(({ identity }, index) => current.findIndex((each) => each.identity === identity) === index);
}

/** Durable when it returns. */
export async function rememberMember(queue: DiskQueue, dataDirectory: string, member: Member): Promise<void> {
  const { identity, poolName, section } = member;
  const path = join(poolsDirectory(dataDirectory), `${poolName}${suffix}`);
  const text = `${JSON.stringify({ format: 1, section, disk: identity })}\n`;
  await step('open/remember', () => replaceFile(queue, new DirectorySync(), path, text));
}
