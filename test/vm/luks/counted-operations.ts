import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { Secrets } from '../../../src/volume/secrets.ts';
import { cryptsetupTold } from '../../support/cryptsetup-table.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import type { Scratch } from '../../support/scratch.ts';
import { CountedCryptsetup } from './counted-cryptsetup.ts';

const mebibyte = 1n << 20n;
const block = { type: 'block' } as const;
const encryption = 'luks2';

/** Does everything once with an encrypted volume: cryptsetup runs as often as the document says, and never with a key. */
export async function assertCounts(open: () => Promise<Pool>, scratch: Scratch): Promise<void> {
  const counted = new CountedCryptsetup(scratch);
  const pool = await open();
  const arguments_: string[] = [];
  const counts = new Map<string, number>();
  const count = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const result = await work();
    const started = counted.taken();
    arguments_.push(...started);
    counts.set(what, started.length);
    return result;
  };
  const [first, second] = [randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString('base64'));
  const secrets = new Secrets({ key: first ?? '' });
  const both = new Secrets({ key: second ?? '', previousKey: first ?? '' });
  const isDetached = (id: Parameters<Pool['attached']>[0]) =>
    eventually(async () => assert.deepEqual(await pool.attached(id), []));

  const { id } = await count('create with a filesystem', () =>
    pool.create({ ...volumeSpec('counted'), encryption, secrets }),
  );
  await count('create without encryption', () => pool.create(volumeSpec('plain')));
  const raw = await count('create as a block volume', () =>
    pool.create({ ...volumeSpec('raw', { content: block }), encryption, secrets }),
  );
  const attach = (given: Secrets) => attachDevice(pool, id, { persistent: true, secrets: given });
  const attachment = await count('stage', () => attach(secrets));
  await attachment.release();
  await count('stage again', async () => (await attach(secrets)).release());
  await count('expand while in use', () => pool.grow(id, 128n * mebibyte));
  await count('unstage', () => pool.detach(attachment));
  await isDetached(id);
  await count('expand else', () => pool.grow(id, 192n * mebibyte));
  const clone = (name: string, sizeBytes: bigint, content = volumeSpec(name).content) => ({
    ...volumeSpec(name, { sizeBytes, content }),
    secrets,
  });
  await count('clone or restore, with a filesystem', () =>
    pool.create(clone('copy', 192n * mebibyte), { type: 'volume', id }),
  );
  await count('clone or restore, as a block volume', () =>
    pool.create(clone('raw copy', 64n * mebibyte, block), { type: 'volume', id: raw.id }),
  );
  const snapshot = { id: snapshotIdFor('node', 'counted'), name: 'counted', sourceId: id, parameters: {} };
  await count('snapshot', () => pool.takeSnapshots([snapshot]));
  await count('delete a snapshot', () => pool.removeSnapshot(snapshot.id));
  const changed = await count('stage that changes the key', () => attach(both));
  await changed.release();
  await pool.detach(changed);
  await isDetached(id);
  await pool.modify(id, { undeleteSeconds: 3600 });
  await count('delete', () => pool.remove(id));
  await count('restore from the trash', () => pool.restore(id));
  await pool.remove(id);
  await count('purge', () => pool.purge(id));
  await pool.close();

  assert.deepEqual(counts, cryptsetupTold());
  for (const key of [first ?? '', second ?? '']) {
    const bytes = Buffer.from(key, 'base64');
    const forms = [key, bytes.toString('hex'), bytes.toString('latin1')];
    assert.ok(!arguments_.some((each) => forms.some((form) => each.includes(form))));
  }
  assert.deepEqual(
    readdirSync('/dev/mapper').filter((name) => name.startsWith('holdfast-')),
    [],
  );
}
