import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { isErrno } from '../../kernel/errno.ts';
import type { DirectorySync } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { ballastFileName } from './ballast.ts';
import { replaceFile } from './durable-file.ts';
import { healthFileName } from './health-file.ts';
import { poolsDirectory } from './home.ts';
import type { Layout } from './layout.ts';
import { ageFileName } from './pool-age.ts';
import { sparesName } from './spares.ts';

/** What pool.json says. `format` grows when an older driver could misread what a newer one wrote. */
const poolFile = z.strictObject({
  format: z.literal(1),
  id: z.uuid(),
  /** The logical block size of its volumes' devices. */
  blockSizeBytes: z.union([z.literal(512), z.literal(4096)]),
  createdAt: z.iso.datetime(),
});

export type PoolFile = z.infer<typeof poolFile>;

export interface PoolFileOptions {
  readonly lane: Lane;
  readonly layout: Layout;
  readonly syncs: DirectorySync;
  readonly poolName: string;
  readonly dataDirectory: string;
  /** Found out only for a new pool. */
  readonly blockSizeBytes: () => Promise<512 | 4096>;
}

/**
 * Reads the pool's identity, or makes a new pool in an empty home. Refuses an empty home if this node had a pool of
 * this name before: a disk that is not mounted looks just like that, and a new pool in its place would answer "no such
 * volume" for every volume there is.
 */
export async function openPoolFile(options: PoolFileOptions): Promise<PoolFile> {
  const { lane, layout, syncs, poolName, dataDirectory } = options;
  const markerPath = join(poolsDirectory(dataDirectory), `${poolName}.id`);
  const knownId = (await readIfThere(lane, markerPath))?.trim();
  const text = await readIfThere(lane, layout.poolFile);
  if (text === undefined) {
    await refuseUnlessNew(options, knownId, markerPath);
    await makeDirectories(options);
    const created: PoolFile = {
      format: 1,
      id: randomUUID(),
      blockSizeBytes: await options.blockSizeBytes(),
      createdAt: new Date().toISOString(),
    };
    await step('open/identity', () =>
      replaceFile(lane, syncs, layout.poolFile, `${JSON.stringify(created, null, 2)}\n`),
    );
    await remember(options, markerPath, created.id);
    return created;
  }
  const opened = parsePoolFile(text, layout.poolFile);
  if (knownId !== undefined && knownId !== opened.id) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${layout.root} holds pool ${opened.id}, but on this node the pool was ${knownId}. Is the right disk mounted? If the change is meant, remove ${markerPath}.`,
    );
  }
  await makeDirectories(options);
  if (knownId === undefined) await remember(options, markerPath, opened.id);
  return opened;
}

function parsePoolFile(text: string, path: string): PoolFile {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const parsed = poolFile.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new DataLoss(
    `${path} cannot be read as a pool of this version (${z.prettifyError(parsed.error)}). Nothing was changed.`,
  );
}

async function refuseUnlessNew(
  { lane, layout, poolName }: PoolFileOptions,
  knownId: string | undefined,
  markerPath: string,
): Promise<void> {
  if (knownId !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: this node had pool ${knownId} here, but ${layout.root} has no pool now. Is its disk mounted? To start with an empty pool, remove ${markerPath}.`,
    );
  }
  // What a killed first start may have left behind is ours; anything else is somebody's data.
  const ours = [
    'volumes',
    'snapshots',
    'groups',
    'trash',
    'tmp',
    'pool.json.new',
    healthFileName,
    ageFileName,
    ballastFileName,
    sparesName,
    'lost+found',
  ];
  const foreign = (await lane.run(() => readdir(layout.root))).find((name) => !ours.includes(name));
  if (foreign !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${layout.root} is not empty and not a pool (it has '${foreign}'). Give the pool an empty directory.`,
    );
  }
}

async function makeDirectories({ lane, layout }: PoolFileOptions): Promise<void> {
  for (const directory of [layout.volumes, layout.snapshots, layout.groups, layout.trash, layout.drafts]) {
    await lane.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
  }
}

async function remember({ lane, syncs }: PoolFileOptions, markerPath: string, id: string): Promise<void> {
  await step('open/remember', async () => {
    await lane.run(() => mkdir(dirname(markerPath), { recursive: true, mode: 0o700 }));
    await replaceFile(lane, syncs, markerPath, `${id}\n`);
  });
}

async function readIfThere(lane: Lane, path: string): Promise<string | undefined> {
  try {
    return await lane.run(() => readFile(path, 'utf8'));
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
