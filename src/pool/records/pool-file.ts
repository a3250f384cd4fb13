import { randomUUID } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { type DirectorySync, readIfThere } from '../../kernel/file/file.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import { step } from '../../volume/step.ts';
import { indented } from '../../volume/stored-json.ts';
import { replaceFile } from './durable-file.ts';
import { healthFileName } from './health-file.ts';
import { ageFileName, type Layout, lockFileName, templatesName } from './layout.ts';
import { poolsDirectory } from './pools-directory.ts';
import { reservedInodesName } from './reserved-inodes.ts';
import { reserveFileName } from './reserved-space.ts';

/** The content of pool.json. `format` grows when an older driver could misread what a newer one wrote. */
const poolFile = z.strictObject({
  format: z.literal(1),
  id: z.uuid(),
  /** The logical block size of its volumes' devices. */
  blockSizeBytes: z.literal([512, 4096]),
  createdAt: z.iso.datetime(),
  /** Unset: image, as before there were other kinds. */
  kind: z.string().optional(),
});

export type PoolFile = z.infer<typeof poolFile>;

/** The kind of pools whose file does not name one. */
const formerKind = 'image';

/** The files that may lie in a location before its pool.json is written. */
const firstFiles = ['pool.json.new', healthFileName, ageFileName, reserveFileName, lockFileName, 'lost+found'];
/** The directories that may, and the names in them; anything else there would be taken for a leftover, and removed. */
const firstDirectories: ReadonlyMap<string, RegExp> = new Map([
  ['volumes', /^$/],
  ['snapshots', /^$/],
  ['groups', /^$/],
  ['trash', /^$/],
  [templatesName, /^$/],
  // With which the disk was tried out.
  ['tmp', /^(block-size\.|\.reflink-)[0-9a-f]{12}(-clone)?$/],
  [reservedInodesName, /^[0-9]{1,2}$/],
]);

export interface PoolPlace {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly poolName: string;
  readonly dataDirectory: string;
  /** Unset: image. */
  readonly kind?: string | undefined;
  /** The name for messages, where it is not mounted in its place; unset: its path. */
  readonly called?: string;
}

export interface PoolFileOptions extends PoolPlace {
  readonly syncs: DirectorySync;
  /** Called before the node remembers the pool: its file must be found from now on, come what may. */
  readonly settle?: () => Promise<void>;
  /** Found out only for a new pool. */
  readonly blockSizeBytes: () => Promise<512 | 4096>;
}

/** Reads the pool's identity, or makes a new pool in an empty location. */
export async function openPoolFile(options: PoolFileOptions): Promise<PoolFile> {
  const { dataDirectory, kind, queue, layout, poolName, syncs } = options;
  const found = await readPoolFile(options);
  await makeDirectories(options);
  const poolFile = found ?? {
    format: 1,
    id: randomUUID(),
    blockSizeBytes: await options.blockSizeBytes(),
    createdAt: new Date().toISOString(),
    ...(kind === undefined ? {} : { kind }),
  };
  if (found === undefined) {
    await step('open/identity', () => replaceFile(queue, syncs, layout.poolFile, indented(poolFile)));
  }
  const markerPath = markerPathOf(dataDirectory, poolName);
  if ((await readMarker(queue, markerPath)) === undefined) {
    await options.settle?.();
    await remember(options, markerPath, poolFile.id);
  }
  return poolFile;
}

/**
 * Reads the pool's identity; changes nothing, so the command line may use it too. Refuses an empty location if this node had
 * a pool of this name before: a disk that is not mounted looks just like that, and a new pool in its place would answer
 * "no such volume" for every volume there is.
 * @returns undefined if a new pool can be made here
 * @throws HoldfastError if the driver will not use the location
 */
export async function readPoolFile(
  options: PoolPlace & {
    /** No pool is no reason to refuse it. */
    readonly mayBeNew?: boolean;
  },
): Promise<PoolFile | undefined> {
  const { dataDirectory, queue, layout, poolName } = options;
  const where = options.called ?? layout.root;
  const markerPath = markerPathOf(dataDirectory, poolName);
  const knownId = await readMarker(queue, markerPath);
  const text = await readIfThere(queue, layout.poolFile);
  if (text === undefined) {
    if (options.mayBeNew === true) return undefined;
    if (knownId !== undefined) throw noPoolNow(poolName, where, knownId, markerPath);
    await refuseForeign(options);
    return undefined;
  }
  const opened = parsePoolFile(text, options.called === undefined ? layout.poolFile : `pool.json on ${where}`);
  if (opened.kind !== options.kind) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${where} holds a pool of kind ${opened.kind ?? formerKind}, and its configuration says ${options.kind ?? formerKind}. Set its kind, or give the pool another place.`,
    );
  }
  if (knownId !== undefined && knownId !== opened.id) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${where} holds pool ${opened.id}, but on this node the pool was ${knownId}. Is the right disk mounted? If the change is meant, remove ${markerPath}.`,
    );
  }
  return opened;
}

/** Says which pool this node had under the name. */
export function markerPathOf(dataDirectory: string, poolName: string): string {
  return join(poolsDirectory(dataDirectory), `${poolName}.id`);
}

export async function readMarker(queue: DiskQueue, path: string): Promise<string | undefined> {
  return (await readIfThere(queue, path))?.trim();
}

function parsePoolFile(text: string, path: string): PoolFile {
  const parsed = parseJsonInput(poolFile, text);
  if ('data' in parsed) return parsed.data;
  throw new DataLoss(
    `${path} cannot be read as a pool of this version (${inOneSentence(parsed.mistakes)}). Nothing was changed.`,
  );
}

/** A pool that the node knows is never made again. @param where it is looked for */
export function noPoolNow(poolName: string, where: string, knownId: string, markerPath: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: this node had pool ${knownId} here, but ${where} has no pool now. Is its disk mounted? To start with an empty pool, remove ${markerPath}.`,
  );
}

/** @throws FailedPrecondition if this node had a pool of that name */
export async function refuseKnown(
  { dataDirectory, poolName, queue }: Pick<PoolPlace, 'dataDirectory' | 'poolName' | 'queue'>,
  where: string,
): Promise<void> {
  const markerPath = markerPathOf(dataDirectory, poolName);
  const knownId = await readMarker(queue, markerPath);
  if (knownId !== undefined) throw noPoolNow(poolName, where, knownId, markerPath);
}

/** @throws FailedPrecondition if a location without a pool has anything else in it */
async function refuseForeign({ called, layout, poolName, queue }: PoolPlace): Promise<void> {
  const foreign = await findForeign(queue, layout.root);
  if (foreign === undefined) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${called ?? layout.root} is not empty and not a pool (it has '${foreign}'). Give the pool an empty directory.`,
  );
}

/** @returns what lies in a location without a pool, and is not what a killed first start leaves there */
async function findForeign(queue: DiskQueue, root: string): Promise<string | undefined> {
  for (const name of await queue.run(() => readdir(root))) {
    if (firstFiles.includes(name)) continue;
    const ours = firstDirectories.get(name);
    if (ours === undefined) return name;
    const names = await queue.run(() => readdir(join(root, name)));
    const foreign = names.find((each) => !ours.test(each));
    if (foreign !== undefined) return join(name, foreign);
  }
  return undefined;
}

async function makeDirectories({ queue, layout }: PoolFileOptions): Promise<void> {
  for (const directory of [layout.volumes, layout.snapshots, layout.groups, layout.trash, layout.drafts]) {
    await queue.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
  }
}

export async function remember(
  { queue, syncs }: Pick<PoolFileOptions, 'queue' | 'syncs'>,
  markerPath: string,
  id: string,
): Promise<void> {
  await step('open/remember', async () => {
    await queue.run(() => mkdir(dirname(markerPath), { recursive: true, mode: 0o700 }));
    await replaceFile(queue, syncs, markerPath, `${id}\n`);
  });
}
