import assert from 'node:assert/strict';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { groupIdFor, snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import { volumeSpec } from '../../support/image-pool.ts';

/** Something that a driver is killed in the middle of, and that is done anew afterwards. */
export interface Operation {
  /** What must be there before. */
  prepare(pool: Pool, name: string): Promise<unknown>;
  /** Done again after it was cut short anywhere, it is as if it had been done once. */
  run(pool: Pool, name: string): Promise<unknown>;
  /** What is true then. */
  check(pool: Pool, name: string): Promise<void>;
}

const mebibyte = 1n << 20n;
export const idOf = (name: string) => volumeIdFor('node', 'test', name);
export const snapshotOf = (name: string) => snapshotIdFor('node', name);
/** Small: what is deleted is wiped. */
const sizeBytes = 8n * mebibyte;
const nothing = async () => undefined;

async function create(pool: Pool, made: VolumeSpec, source?: Parameters<Pool['create']>[1]): Promise<void> {
  if ((await pool.find(made.id)) === undefined) await pool.create(made, source);
}

async function snapshot(pool: Pool, name: string): Promise<void> {
  if ((await pool.findSnapshot(snapshotOf(name))) !== undefined) return;
  await pool.takeSnapshots([{ id: snapshotOf(name), name, sourceId: idOf(name), parameters: {} }]);
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

/** @param content of the volumes, and of the one that is created */
export function operationsOn(content: VolumeSpec['content'], created = content) {
  const spec = (name: string, changes: Partial<VolumeSpec> = {}) =>
    volumeSpec(name, { content, sizeBytes, ...changes });
  return {
    create: {
      prepare: nothing,
      run: (pool, name) => create(pool, spec(name, { content: created, sizeBytes: 16n * mebibyte })),
      check: exists,
    },
    remove: {
      prepare: (pool, name) => create(pool, spec(name)),
      run: (pool, name) => pool.remove(idOf(name)),
      check: isGone,
    },
    undelete: {
      prepare: (pool, name) => create(pool, spec(name, { undeleteSeconds: 3600 })),
      run: async (pool, name) => {
        await pool.remove(idOf(name));
        if ((await pool.find(idOf(name))) === undefined) await pool.restore(idOf(name));
      },
      check: exists,
    },
    purge: {
      prepare: async (pool, name) => {
        await create(pool, spec(name, { undeleteSeconds: 3600 }));
        await pool.remove(idOf(name));
      },
      run: (pool, name) => pool.purge(idOf(name)),
      check: async (pool) => assert.deepEqual(await pool.trash(), []),
    },
    grow: {
      prepare: (pool, name) => create(pool, spec(name)),
      run: (pool, name) => pool.grow(idOf(name), 12n * mebibyte),
      check: async (pool, name) => assert.equal((await pool.find(idOf(name)))?.sizeBytes, 12n * mebibyte),
    },
    snapshot: {
      prepare: (pool, name) => create(pool, spec(name)),
      run: snapshot,
      check: async (pool, name) => assert.equal((await pool.findSnapshot(snapshotOf(name)))?.name, name),
    },
    restored: {
      prepare: async (pool, name) => {
        await create(pool, spec(name));
        await snapshot(pool, name);
      },
      run: (pool, name) => {
        const source = { type: 'snapshot', id: snapshotOf(name) } as const;
        return create(pool, spec(`${name}-restored`, { sizeBytes: 12n * mebibyte }), source);
      },
      check: (pool, name) => exists(pool, `${name}-restored`),
    },
    group: {
      prepare: (pool, name) => create(pool, spec(name)),
      run: async (pool, name) => {
        const group = { id: groupIdFor('node', name), name, parameters: {} };
        if ((await pool.findGroup(group.id)) !== undefined) return;
        await pool.takeSnapshots([{ id: snapshotOf(name), name, sourceId: idOf(name), parameters: {} }], group);
      },
      check: async (pool, name) => {
        const group = await pool.findGroup(groupIdFor('node', name));
        assert.deepEqual(group?.memberIds, [snapshotOf(name)]);
      },
    },
    'remove a group': {
      prepare: async (pool, name) => {
        await create(pool, spec(name));
        const group = { id: groupIdFor('node', name), name, parameters: {} };
        await pool.takeSnapshots([{ id: snapshotOf(name), name, sourceId: idOf(name), parameters: {} }], group);
      },
      run: (pool, name) => pool.removeGroup(groupIdFor('node', name)),
      check: async (pool, name) => {
        assert.equal(await pool.findGroup(groupIdFor('node', name)), undefined);
        assert.equal(await pool.findSnapshot(snapshotOf(name)), undefined);
      },
    },
    use: {
      prepare: async (pool, name) => {
        await create(pool, spec(name));
        await use(pool, name);
      },
      run: use,
      check: async (pool, name) => assert.deepEqual(await pool.attached(idOf(name)), []),
    },
  } as const satisfies Readonly<Record<string, Operation>>;
}

export const operations: Readonly<Record<string, Operation>> = operationsOn(
  { type: 'block' },
  { type: 'mount', fsType: 'ext4' },
);

/** Removes all that an operation may have left on purpose. */
export async function clear(pool: Pool, kept: string): Promise<void> {
  for (const { groupId, id } of await pool.listSnapshots(undefined, undefined)) {
    if (groupId === undefined) await pool.removeSnapshot(id);
    else await pool.removeGroup(groupId);
  }
  for (const { id, name } of await pool.list(undefined, undefined)) if (name !== kept) await pool.remove(id);
  await pool.purge();
}
