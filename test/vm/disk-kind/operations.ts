import assert from 'node:assert/strict';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';

/** Something that a driver is killed in the middle of, and that is done anew afterwards. */
export interface Operation {
  /** What must be there before; without it the disk is blank, or has an empty pool. */
  prepare?(pool: Pool, name: string): Promise<unknown>;
  /** Done again after it was cut short anywhere, it is as if it had been done once. */
  run(pool: Pool, name: string): Promise<unknown>;
  /** What is true then. */
  check(pool: Pool, name: string): Promise<void>;
}

const block = { type: 'block' } as const;
export const idOf = (name: string) => volumeIdFor('node', 'test', name);
/** A disk that has to write all the zeros, on a busy machine. */
const patienceMs = 300_000;
const trashed: Partial<VolumeSpec> = { content: block, undeleteSeconds: 3600 };

/** Makes the volume, once the disk is free: what was cut short is cleared away behind the start. */
async function create(pool: Pool, name: string, changes: Partial<VolumeSpec> = {}): Promise<void> {
  if ((await pool.find(idOf(name))) !== undefined) return;
  await eventually(async () => assert.ok((await pool.capacity()).availableBytes > 0n), patienceMs);
  await pool.create(volumeSpec(name, { provisioning: 'thick', ...changes }));
}

async function exists(pool: Pool, name: string): Promise<void> {
  assert.equal((await pool.find(idOf(name)))?.name, name);
}

async function isGone(pool: Pool, name: string): Promise<void> {
  assert.equal(await pool.find(idOf(name)), undefined);
}

async function use(pool: Pool, name: string): Promise<void> {
  const attachment = await attachDevice(pool, idOf(name), { persistent: true });
  await attachment.release();
  await pool.detach(attachment);
}

export const operations: Readonly<Record<string, Operation>> = {
  create: { run: (pool, name) => create(pool, name), check: exists },
  remove: {
    prepare: (pool, name) => create(pool, name, { content: block }),
    run: (pool, name) => pool.remove(idOf(name)),
    check: isGone,
  },
  undelete: {
    prepare: (pool, name) => create(pool, name, trashed),
    run: async (pool, name) => {
      await pool.remove(idOf(name));
      if ((await pool.find(idOf(name))) === undefined) await pool.restore(idOf(name));
    },
    check: exists,
  },
  purge: {
    prepare: async (pool, name) => {
      await create(pool, name, trashed);
      await pool.remove(idOf(name));
    },
    run: (pool, name) => pool.purge(idOf(name)),
    check: async (pool) => assert.deepEqual(await pool.trash(), []),
  },
  modify: {
    prepare: (pool, name) => create(pool, name, { content: block }),
    run: (pool, name) => pool.modify(idOf(name), { undeleteSeconds: 60 }),
    check: async (pool, name) => assert.equal((await pool.find(idOf(name)))?.undeleteSeconds, 60),
  },
  use: {
    prepare: (pool, name) => create(pool, name, { content: block }),
    run: use,
    check: async (pool, name) => assert.deepEqual(await pool.attached(idOf(name)), []),
  },
};

/** Removes all that an operation may have left on purpose, and waits until it is wiped. */
export async function clear(pool: Pool): Promise<void> {
  for (const { id } of await pool.list(undefined, undefined)) {
    await pool.modify(id, { undeleteSeconds: 0 });
    await pool.remove(id);
  }
  await pool.purge();
  await eventually(async () => assert.ok((await pool.capacity()).availableBytes > 0n), patienceMs);
}
