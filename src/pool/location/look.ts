import { access, constants } from 'node:fs/promises';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { explain } from '../../kernel/call/explain.ts';
import { Layout } from '../records/layout.ts';
import { readPoolFile } from '../records/pool-file.ts';
import { poolsDirectory } from '../records/pools-directory.ts';
import { NotReadable, type PoolContents, type PoolSight } from '../sight.ts';
import { refuseWrongDisk } from './disk/system-disk.ts';
import { absent, type FindOptions, type FoundLocation, findLocation } from './find.ts';
import { readPrivately } from './private-mount.ts';
import { explainTrouble } from './trouble.ts';

/** Reads what a pool holds whose directory this is: below `location.root`. */
export type ReadContents = (location: FoundLocation) => Promise<PoolContents>;

/**
 * Looks at a pool that lies in a location, as the driver would find it, and reads what it holds. One that is not mounted
 * is mounted for the look where it is not visible.
 */
export async function lookInLocation(options: FindOptions, read: ReadContents): Promise<PoolSight> {
  const { poolName } = options;
  const location = await findLocation(options);
  let readFrom = location.root;
  const readAt = (root: string) => {
    readFrom = root;
    return readRoot(options, { ...location, root }, read);
  };
  try {
    const sight = await readFound(options, location, readAt);
    if (sight.location.state === 'absent') await refuseWrongDisk(options);
    return sight;
  } catch (error) {
    const state = error instanceof NotReadable ? location.state : 'broken';
    const advice = withoutName(explain(error).replaceAll(readFrom, location.root), poolName);
    return { location: { ...location, state, advice }, contents: undefined };
  }
}

function readFound(
  options: FindOptions,
  location: FoundLocation,
  readAt: (root: string) => Promise<PoolSight>,
): Promise<PoolSight> {
  if (location.state === 'open') return readAt(location.root);
  if (location.state === 'closed') return readClosed(options, location, readAt);
  return Promise.resolve({ location, contents: undefined });
}

async function readClosed(
  { dataDirectory, poolName, queue }: FindOptions,
  location: FoundLocation,
  readAt: (root: string) => Promise<PoolSight>,
): Promise<PoolSight> {
  const type = location.type === 'device' ? 'device' : 'file';
  const markerDirectory = poolsDirectory(dataDirectory);
  const closed = { poolName, source: location.source, type, markerDirectory } as const;
  const sight = await readPrivately(queue, closed, async (root) => asMounted(await readAt(root), root, location));
  return sight ?? { location: { ...location, ...absent(location.path) }, contents: undefined };
}

/** The result from a private mount, with the paths that it has where the driver mounts it. */
function asMounted(
  { location, contents }: PoolSight,
  readFrom: string,
  { root, type, path }: FoundLocation,
): PoolSight {
  const advice =
    location.state === 'closed'
      ? `${type} ${path} is not mounted here: what it holds was read without that, and nothing written. A driver mounts it while it runs (holdfast serve).`
      : location.advice;
  const damaged = contents?.damaged.map(({ id, reason }) => ({ id, reason: reason.replaceAll(readFrom, root) }));
  return { location: { ...location, advice }, contents: contents && { ...contents, damaged: damaged ?? [] } };
}

async function readRoot(
  { dataDirectory, poolKind, poolName, queue }: FindOptions,
  location: FoundLocation,
  read: ReadContents,
): Promise<PoolSight> {
  const layout = new Layout(location.root);
  const poolFile = await readPoolFile({ dataDirectory, queue, layout, poolName, kind: poolKind });
  if (poolFile === undefined) return { location: { ...location, ...absent(location.path) }, contents: undefined };
  const contents = await read(location);
  const advice = location.state === 'open' ? await whyNotWritable(queue, poolName, location.root) : undefined;
  return { location: advice === undefined ? location : { ...location, state: 'broken', advice }, contents };
}

/** Its driver has to write; a command that only looks can read it anyway. */
async function whyNotWritable(queue: DiskQueue, poolName: string, root: string): Promise<string | undefined> {
  try {
    await queue.run(() => access(root, constants.W_OK));
    return undefined;
  } catch (error) {
    if (!isErrno(error, 'EROFS')) throw error;
    return withoutName(explain(await explainTrouble(error, { queue, poolName, path: root })), poolName);
  }
}

/** The text alone: the caller prints the pool's name before it. */
function withoutName(text: string, poolName: string): string {
  return text.replace(`pool ${poolName}: `, '');
}
