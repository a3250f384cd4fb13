import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type DirectorySync, readIfThere } from '../../../kernel/file/file.ts';
import { DataLoss, FailedPrecondition } from '../../../volume/errors.ts';
import { parseJsonInput } from '../../../volume/parse-input.ts';
import { indented } from '../../../volume/stored-json.ts';
import { replaceFile } from '../../records/durable-file.ts';
import type { Layout } from '../../records/layout.ts';

/** The program of a pool and its options: they say which storage the volumes are on. */
export interface MadeWith {
  readonly program: string;
  readonly options: Readonly<Record<string, string>>;
}

const stored = z.strictObject({
  format: z.literal(1),
  program: z.string(),
  options: z.record(z.string(), z.string()),
});

interface Place {
  readonly poolName: string;
  readonly queue: DiskQueue;
  readonly syncs: DirectorySync;
  readonly layout: Layout;
}

/**
 * Refuses other options than those that the pool's volumes were made with: the program would look for them on another storage,
 * find that they are "not there", and their data would stay for ever. A pool without volumes and snapshots may change.
 * @throws FailedPrecondition, DataLoss
 */
export async function requireSameProgram({ layout, poolName, queue, syncs }: Place, now: MadeWith): Promise<void> {
  const path = join(layout.root, 'program.json');
  const text = await readIfThere(queue, path);
  const different = text === undefined ? ['program'] : differenceOf(parse(path, text), now);
  if (different.length === 0) return;
  const volumes = await queue.run(() => readdir(layout.volumes));
  const snapshots = await queue.run(() => readdir(layout.snapshots));
  if (text !== undefined && volumes.length + snapshots.length > 0) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${different.join(', ')} changed in the configuration, and its ${volumes.length} volumes and ${snapshots.length} snapshots were made with what stood there before (${path}): change it back, and make another pool for new volumes.`,
    );
  }
  await replaceFile(queue, syncs, path, indented({ format: 1, ...now }));
}

function parse(path: string, text: string): MadeWith {
  const parsed = parseJsonInput(stored, text);
  if ('mistakes' in parsed) throw new DataLoss(`${path} cannot be read: ${parsed.mistakes.join('; ')}`);
  return parsed.data;
}

/** The keys that are not the same. */
function differenceOf(before: MadeWith, now: MadeWith): string[] {
  const names = new Set([...Object.keys(before.options), ...Object.keys(now.options)]);
  return [
    ...(before.program === now.program ? [] : ['program']),
    ...[...names].filter((name) => before.options[name] !== now.options[name]).map((name) => `options.${name}`),
  ];
}
