import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { Secrets } from '../../../src/volume/secrets.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { idOf, type Operation } from '../lvm/operations.ts';

const mebibyte = 1n << 20n;
const keyOf = (name: string) => createHash('sha256').update(name).digest('base64');
const [first, second] = [keyOf('first'), keyOf('second')];
const none = new Secrets({});

async function create(pool: Pool, name: string, changes: Partial<VolumeSpec>, source?: Parameters<Pool['create']>[1]) {
  if ((await pool.find(idOf(name))) !== undefined) return;
  await pool.create(volumeSpec(name, { sizeBytes: 8n * mebibyte, content: { type: 'block' }, ...changes }), source);
}

async function use(pool: Pool, name: string, secrets = none): Promise<void> {
  const attachment = await attachDevice(pool, idOf(name), { persistent: true, secrets });
  await attachment.release();
  await pool.detach(attachment);
}

const filesystem: Partial<VolumeSpec> = { content: { type: 'mount', fsType: 'ext4' }, sizeBytes: 16n * mebibyte };

/** What only encrypted volumes go through. */
export const encryptedOperations: Readonly<Record<string, Operation>> = {
  'grow in use': {
    prepare: (pool, name) => create(pool, name, {}),
    async run(pool, name) {
      const attachment = await attachDevice(pool, idOf(name), { persistent: true });
      await attachment.release();
      await pool.grow(idOf(name), 12n * mebibyte);
      await pool.detach(attachment);
    },
    check: async (pool, name) => assert.equal((await pool.find(idOf(name)))?.sizeBytes, 12n * mebibyte),
  },
  'change the key': {
    prepare: (pool, name) => create(pool, name, { secrets: new Secrets({ key: first }) }),
    run: (pool, name) => use(pool, name, new Secrets({ key: second, previousKey: first })),
    async check(pool, name) {
      await use(pool, name, new Secrets({ key: second }));
      await assert.rejects(use(pool, name, new Secrets({ key: first })));
    },
  },
  'restore a filesystem': {
    async prepare(pool, name) {
      await create(pool, name, filesystem);
      const id = snapshotIdFor('node', name);
      await pool.takeSnapshots([{ id, name, sourceId: idOf(name), parameters: {} }]);
    },
    run: (pool, name) =>
      create(
        pool,
        `${name}-restored`,
        { ...filesystem, sizeBytes: 24n * mebibyte },
        {
          type: 'snapshot',
          id: snapshotIdFor('node', name),
        },
      ),
    check: (pool, name) => use(pool, `${name}-restored`),
  },
};
