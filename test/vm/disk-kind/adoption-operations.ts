import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from '../../../src/pool/pool.ts';
import { eventually } from '../../support/eventually.ts';
import { idOf, type Operation } from './operations.ts';

const accessModes = ['SINGLE_NODE_WRITER'] as const;
/** A disk that has to write all the zeros, on a busy machine. */
const patienceMs = 300_000;

/** Where a disk of somebody else's is, and what is known of it. */
export interface AdoptedPlace {
  /** Of the pool's disk. */
  readonly path: string;
  readonly dataDirectory: string;
}

/** Where the disk's label lies. */
export function notePathIn(dataDirectory: string): string {
  return join(dataDirectory, 'pools', 'test.adopted');
}

/** If it is no volume yet. */
export async function adopt(pool: Pool, name: string, path: string): Promise<void> {
  if ((await pool.find(idOf(name))) !== undefined) return;
  await pool.adopt({ id: idOf(name), name, path, sizeBytes: undefined, accessModes, parameters: {} });
}

/** If it is a volume still. */
export async function release(pool: Pool, name: string): Promise<void> {
  if ((await pool.find(idOf(name))) !== undefined) await pool.release(idOf(name), undefined);
}

/** Until the disk is wiped. */
export async function remove(pool: Pool, name: string, dataDirectory: string): Promise<void> {
  await pool.remove(idOf(name));
  await eventually(() => assert.equal(existsSync(notePathIn(dataDirectory)), false), patienceMs);
}

/** What is somebody else's becomes a volume, is somebody else's again, or is deleted. */
export function adoptionOperations({ dataDirectory, path }: AdoptedPlace): Readonly<Record<string, Operation>> {
  const adopted = (pool: Pool, name: string) => adopt(pool, name, path);
  const isGone = async (pool: Pool, name: string) => assert.equal(await pool.find(idOf(name)), undefined);
  return {
    adopt: {
      run: adopted,
      check: async (pool, name) => assert.equal((await pool.find(idOf(name)))?.name, name),
    },
    release: { prepare: adopted, run: release, check: isGone },
    'remove-adopted': { prepare: adopted, run: (pool, name) => remove(pool, name, dataDirectory), check: isGone },
  };
}
