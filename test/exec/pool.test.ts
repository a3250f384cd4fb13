import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import {
  FailedPrecondition,
  HoldfastError,
  InvalidArgument,
  ResourceExhausted,
  Unavailable,
} from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { openExecPool, ProgramStorage } from '../support/exec-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';

/* Volumes that a program makes. */

const directory = new ProgramDirectory();
let scratch: Scratch;
let pool: Catalog;
let storage: ProgramStorage;
let path: string;

beforeEach(async () => {
  path = directory.example('storage');
  scratch = new Scratch('exec-pool');
  storage = new ProgramStorage(scratch);
  pool = await openExecPool(scratch, path);
});
afterEach(async () => {
  await pool.close();
  scratch[Symbol.dispose]();
});
after(() => directory[Symbol.dispose]());

const spec = (name: string, more: object = {}) =>
  volumeSpec(name, { content: { type: 'directory' }, accessModes: ['MULTI_NODE_MULTI_WRITER'], ...more });

async function reopen(): Promise<void> {
  await pool.close();
  pool = await openExecPool(scratch, path);
}

describe('a pool of a program', () => {
  test('makes, finds, grows and deletes volumes', async () => {
    const record = await pool.create(spec('a', { sizeBytes: 64n << 20n }));
    assert.deepEqual(storage.volumes(), [record.id]);
    await reopen();
    assert.deepEqual(await pool.find(record.id), record);
    assert.deepEqual(pool.cluster?.contextOf(record), { program: 'storage', 'options.base': scratch.join('base') });
    assert.equal((await pool.grow(record.id, 128n << 20n)).sizeBytes, 128n << 20n);
    const { availableBytes, totalBytes } = await pool.capacity();
    assert.equal(availableBytes, 4n << 30n);
    assert.ok(totalBytes >= 4n << 30n);
    await pool.remove(record.id);
    await pool.remove(record.id);
    assert.deepEqual(storage.volumes(), []);
    assert.equal(await pool.find(record.id), undefined);
    const verbs = storage.calls().filter((call) => !call.startsWith('capacity'));
    assert.deepEqual(verbs, [`create ${record.id} 67108864`, `grow ${record.id} 134217728`, `delete ${record.id}`]);
  });

  test('a create that fails leaves no volume, and the same again makes it', async () => {
    storage.failIn('create');
    await assert.rejects(pool.create(spec('a')), Unavailable);
    const { id } = spec('a');
    assert.equal(await pool.find(id), undefined);
    await eventually(() => assert.deepEqual(storage.volumes(), []));
    storage.failIn(undefined);
    await pool.create(spec('a'));
    assert.deepEqual(storage.volumes(), [id]);
  });

  test('what is left of a try is not deleted when the volume was made since', async () => {
    storage.failIn('create');
    const tries = Array.from({ length: 5 }, async () => pool.create(spec('a')).catch(() => undefined));
    await Promise.all(tries);
    storage.failIn(undefined);
    const { id } = await pool.create(spec('a'));
    // As a home leaves it that dies before its next try makes the volume.
    const layout = new Layout(scratch.join('records'));
    const left = layout.newDraft(id);
    cpSync(layout.volume(id), left, { recursive: true });
    await reopen();
    await eventually(() => assert.ok(!existsSync(left)));
    assert.deepEqual(storage.volumes(), [id]);
    assert.ok(await pool.find(id));
  });

  test('what is left of a try is deleted when there is no such volume', async () => {
    const { id } = await pool.create(spec('a'));
    const layout = new Layout(scratch.join('records'));
    await pool.close();
    renameSync(layout.volume(id), layout.newDraft(id));
    pool = await openExecPool(scratch, path);
    await eventually(() => assert.deepEqual(storage.volumes(), []));
    assert.equal(await pool.find(id), undefined);
  });

  test('what is left of a try long ago is no proof that nobody uses the volume: the records may be restored ones', async () => {
    const { createdAt, id } = await pool.create(spec('a'));
    const layout = new Layout(scratch.join('records'));
    await pool.close();
    const left = layout.newDraft(id);
    renameSync(layout.volume(id), left);
    const record = join(left, 'volume.json');
    const before = new Date(Date.parse(createdAt) - 3_600_000).toISOString();
    writeFileSync(record, readFileSync(record, 'utf8').replace(createdAt, before));
    pool = await openExecPool(scratch, path);
    await eventually(() => assert.ok(!existsSync(left)));
    assert.deepEqual(storage.volumes(), [id]);
    // The same claim gets it again.
    await pool.create(spec('a'));
    assert.deepEqual(storage.volumes(), [id]);
  });

  test('with other options is not opened while there are volumes: they would seem to be gone', async () => {
    const { id } = await pool.create(spec('a'));
    const elsewhere = () => openExecPool(scratch, path, 'directory', scratch.join('elsewhere'));
    await pool.close();
    mkdirSync(scratch.join('elsewhere', 'volumes'), { recursive: true });
    await assert.rejects(elsewhere(), (error) => {
      assert.ok(error instanceof FailedPrecondition);
      assert.match(error.message, /options\.base changed in the configuration, and its 1 volumes/);
      return true;
    });
    pool = await openExecPool(scratch, path);
    await pool.remove(id);
    await pool.close();
    pool = await elsewhere();
    await pool.create(spec('b'));
    assert.deepEqual(storage.volumes(), []);
  });

  test('a delete that fails leaves the volume, and the same again deletes it', async () => {
    const { id } = await pool.create(spec('a'));
    storage.failIn('delete');
    await assert.rejects(pool.remove(id), Unavailable);
    assert.ok(await pool.find(id));
    storage.failIn(undefined);
    await pool.remove(id);
    await pool.create(spec('a'));
    assert.deepEqual(storage.volumes(), [id]);
  });

  test('a growth that fails changes nothing', async () => {
    const { id, sizeBytes } = await pool.create(spec('a', { sizeBytes: 64n << 20n }));
    storage.failIn('grow');
    await assert.rejects(pool.grow(id, 128n << 20n), Unavailable);
    assert.equal((await pool.find(id))?.sizeBytes, sizeBytes);
  });

  test('has neither copies, nor a trash, nor more than its program has', async () => {
    const { id } = await pool.create(spec('a'));
    await assert.rejects(pool.create(spec('b'), { kind: 'volume', id } as never), HoldfastError);
    await assert.rejects(pool.create(spec('c', { undeleteSeconds: 3600 })), InvalidArgument);
    await assert.rejects(pool.create(spec('d', { sizeBytes: 11n << 30n })), ResourceExhausted);
    assert.deepEqual(storage.volumes(), [id]);
    assert.deepEqual(await pool.trash(), []);
  });

  test('its home reaches no volume', async () => {
    const { id } = await pool.create(spec('a'));
    await assert.rejects(pool.attach(id, { persistent: false }), FailedPrecondition);
    assert.deepEqual(await pool.attached(id), []);
    assert.equal((await pool.condition(id)).abnormal, false);
  });
});
