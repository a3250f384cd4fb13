import { DiskQueue } from '../call/disk-queue.ts';
import { type Mount, parseMountsWith, parseMountTable } from '../mount/mount-table.ts';
import { listProcesses, mountNamespaceOf, mountTextOf, shownBy } from './process.ts';

/** A separate queue, for the same reason as in the search for holders. */
const queue = new DiskQueue('mounts elsewhere', 2);

let running: Promise<unknown> = Promise.resolve();
let notBegun: Promise<readonly Buffer[]> | undefined;

/**
 * The mounts in other mount namespaces than this process's, as far as it sees the processes in them. One search runs at
 * a time, and all callers that come before the next one begins share it: a search in progress may have passed the mount
 * in question.
 * @param text only mounts whose lines have this text. On a node with many containers it takes a small part of the time
 */
export async function mountsElsewhere(text?: string): Promise<readonly Mount[]> {
  notBegun ??= lookAfter(running);
  const tables = await notBegun;
  return tables.flatMap((table) =>
    text === undefined ? parseMountTable(table.toString()) : parseMountsWith(table, text),
  );
}

async function lookAfter(previous: Promise<unknown>): Promise<readonly Buffer[]> {
  await Promise.allSettled([previous]);
  const look = readTables();
  notBegun = undefined;
  running = look;
  return look;
}

async function readTables(): Promise<readonly Buffer[]> {
  const own = await mountNamespaceOf(queue, 'self');
  const pids = await listProcesses(queue);
  const shown = await Promise.all(pids.map((pid) => shownBy(queue, pid)));
  const members = new Map<string, number[]>();
  for (const { namespace, thread } of shown.filter((each) => each !== undefined)) {
    if (namespace !== own) members.set(namespace, [...(members.get(namespace) ?? []), thread]);
  }
  return Promise.all(Array.from(members.values(), tableOf));
}

/** Reads the table of the first process that has not ended meanwhile. */
async function tableOf(pids: readonly number[]): Promise<Buffer> {
  for (const pid of pids) {
    const table = await mountTextOf(queue, pid);
    if (table.length > 0) return table;
  }
  return Buffer.alloc(0);
}
