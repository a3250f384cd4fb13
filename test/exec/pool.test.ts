import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { ExecParts } from '../../src/pool/kinds/exec/backend.ts';
import { ExecProvisioner } from '../../src/pool/kinds/exec/provisioner.ts';
import type { SnapshotSpec } from '../../src/pool/pool.ts';
import { CommitOrder } from '../../src/pool/records/commit-order.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import {
  FailedPrecondition,
  HoldfastError,
  InvalidArgument,
  ResourceExhausted,
  Unavailable,
} from '../../src/volume/errors.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
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

const snapshotSpec = (name: string, sourceId: VolumeId): SnapshotSpec => ({
  ...{ id: snapshotIdFor('node', name), name, sourceId, parameters: {} },
});

async function reopen(): Promise<void> {
  await pool.close();
  pool = await openExecPool(scratch, path);
}

/** Gates before verbs of the program: a call waits there while its gate is closed. */
class Gates {
  static async before(verb: string): Promise<Gates> {
    const gates = new Gates();
    gates.close(verb);
    const gate = `${scratch.join('gate')}-$1`;
    const waits = `[ ! -e ${gate} ] || { touch ${gate}-reached; while [ -e ${gate} ]; do sleep 0.05; done; }`;
    await pool.close();
    pool = await openExecPool(scratch, directory.script('gates', `${waits}\nexec ${path} "$@"`));
    return gates;
  }

  close(verb: string): void {
    writeFileSync(scratch.join(`gate-${verb}`), '');
  }

  open(verb: string): void {
    rmSync(scratch.join(`gate-${verb}`));
  }

  async reached(verb: string): Promise<void> {
    await eventually(() => assert.ok(existsSync(scratch.join(`gate-${verb}-reached`)), verb));
  }
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
    assert.deepEqual(storage.calls(), [
      `create ${record.id} 67108864`,
      `grow ${record.id} 134217728`,
      `delete ${record.id}`,
    ]);
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
    const elsewhere = () => openExecPool(scratch, path, { base: scratch.join('elsewhere') });
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

  test('has neither a trash nor more than its program has', async () => {
    const { id } = await pool.create(spec('a'));
    await assert.rejects(pool.create(spec('c', { undeleteSeconds: 3600 })), InvalidArgument);
    await assert.rejects(pool.create(spec('d', { sizeBytes: 11n << 30n })), ResourceExhausted);
    assert.deepEqual(storage.volumes(), [id]);
    assert.deepEqual(await pool.trash(), []);
  });

  test('takes snapshots, and makes volumes of snapshots and volumes', async () => {
    const { id, sizeBytes } = await pool.create(spec('a'));
    writeFileSync(join(storage.path(id), 'file'), 'first');
    const [snapshot = assert.fail()] = await pool.takeSnapshots([snapshotSpec('s', id)]);
    writeFileSync(join(storage.path(id), 'file'), 'second');
    assert.deepEqual(storage.snapshots(), [snapshot.id]);
    const restored = await pool.create(spec('b'), { type: 'snapshot', id: snapshot.id });
    const copied = await pool.create(spec('c'), { type: 'volume', id });
    const contentOf = (each: string) => readFileSync(join(storage.path(each), 'file'), 'utf8');
    assert.deepEqual([restored.id, copied.id].map(contentOf), ['first', 'second']);
    await pool.remove(id);
    await reopen();
    assert.deepEqual(await pool.findSnapshot(snapshot.id), snapshot);
    assert.equal((await pool.find(restored.id))?.sizeBytes, sizeBytes);
    await pool.removeSnapshot(snapshot.id);
    await pool.removeSnapshot(snapshot.id);
    assert.deepEqual(storage.snapshots(), []);
  });

  test('a snapshot that fails leaves none, and the same again takes it', async () => {
    const { id } = await pool.create(spec('a'));
    storage.failIn('snapshot');
    await assert.rejects(pool.takeSnapshots([snapshotSpec('s', id)]), Unavailable);
    const wanted = snapshotSpec('s', id);
    assert.equal(await pool.findSnapshot(wanted.id), undefined);
    storage.failIn(undefined);
    await pool.takeSnapshots([wanted]);
    assert.deepEqual(storage.snapshots(), [wanted.id]);
    storage.failIn('delete-snapshot');
    await assert.rejects(pool.removeSnapshot(wanted.id), Unavailable);
    assert.ok(await pool.findSnapshot(wanted.id));
  });

  test('what is left of a try to take a snapshot is deleted, unless it was taken since', async () => {
    const { id } = await pool.create(spec('a'));
    const layout = new Layout(scratch.join('records'));
    const wanted = snapshotSpec('s', id);
    await pool.takeSnapshots([wanted]);
    const left = layout.newDraft(wanted.id);
    cpSync(layout.snapshot(wanted.id), left, { recursive: true });
    await reopen();
    await eventually(() => assert.ok(!existsSync(left)));
    assert.deepEqual(storage.snapshots(), [wanted.id]);
    await pool.close();
    renameSync(layout.snapshot(wanted.id), layout.newDraft(wanted.id));
    pool = await openExecPool(scratch, path);
    await eventually(() => assert.deepEqual(storage.snapshots(), []));
    assert.equal(await pool.findSnapshot(wanted.id), undefined);
  });

  test('without snapshots in its configuration there are none, and no copies', async () => {
    const { id } = await pool.create(spec('a'));
    await pool.close();
    pool = await openExecPool(scratch, path, { snapshots: false });
    await assert.rejects(pool.create(spec('b'), { type: 'volume', id }), InvalidArgument);
    await assert.rejects(pool.takeSnapshots([snapshotSpec('s', id)]), HoldfastError);
  });

  test('a volume that the program does not list has a condition, and one that no record names is in the log', async () => {
    const { id } = await pool.create(spec('a'));
    mkdirSync(storage.path('of-another'));
    const lines: unknown[] = [];
    const log = { info() {}, error() {}, warn: (fields: object, words: string) => lines.push({ ...fields, words }) };
    await pool.close();
    pool = await openExecPool(scratch, path, { log });
    assert.equal((await pool.condition(id)).abnormal, false);
    await eventually(() => assert.equal(lines.length, 1));
    assert.match(JSON.stringify(lines), /"ids":\["of-another"\].*no record of the pool names/);
    rmSync(storage.path(id), { recursive: true });
    await reopen();
    const { abnormal, message } = await pool.condition(id);
    assert.deepEqual([abnormal, /does not list this volume/.test(message)], [true, true]);
    assert.ok(existsSync(storage.path('of-another')));
  });

  test('a volume that was made after the list was read is not missing', async () => {
    const { id } = await pool.create(spec('a'));
    assert.equal((await pool.condition(id)).abnormal, false);
    const next = await pool.create(spec('b'));
    assert.equal((await pool.condition(next.id)).abnormal, false);
  });

  test('a program that answers list without lists does not say that everything is gone', async () => {
    const { id } = await pool.create(spec('a'));
    for (const answer of ['{"status": "Success"}', '{"status": "Success", "volumes": []}']) {
      await pool.close();
      const says = `[ "$1" = list ] && exec echo '${answer}'\nexec ${path} "$@"`;
      pool = await openExecPool(scratch, directory.script('lists-no-keys', says));
      assert.equal((await pool.condition(id)).abnormal, false, answer);
    }
  });

  test('a list that takes long keeps no volume from being made', async () => {
    const gates = await Gates.before('list');
    await gates.reached('list');
    await pool.create(spec('a'));
    gates.open('list');
  });

  test('a snapshot that an earlier try has taken is taken again: its time is that of its record', async () => {
    const { id } = await pool.create(spec('a'));
    const wanted = snapshotSpec('s', id);
    mkdirSync(new Layout(scratch.join('records')).newDraft(wanted.id));
    await pool.takeSnapshots([wanted]);
    assert.deepEqual(storage.calls().slice(-2), [`delete-snapshot ${wanted.id}`, `snapshot ${wanted.id} ${id}`]);
  });

  test('the rest of a try stays noted while another one is on its way, which may fail before its own note', async () => {
    const queue = new DiskQueue('test', 1);
    const layout = new Layout(scratch.join('other'));
    for (const place of [layout.drafts, layout.volumes]) mkdirSync(place, { recursive: true });
    const syncs = new DirectorySync();
    const order = new CommitOrder(queue, syncs, false);
    const asked: string[] = [];
    const calls = { create: async () => assert.fail('trouble'), delete: async (id: VolumeId) => void asked.push(id) };
    const parts = { name: 'test', queue, layout, order, syncs, storage: calls } as unknown as ExecParts;
    const provisioner = new ExecProvisioner(parts);
    const record = await pool.create(spec('a'));
    const { id } = record;
    const first = provisioner.draft(id);
    await first.begin();
    await assert.rejects(first.make(record, { ...record, mkfsArguments: [], secrets: undefined }));
    const left = (await first.discard()) ?? assert.fail();
    const second = provisioner.draft(id);
    await second.begin();
    await provisioner.destroy(left);
    assert.deepEqual([existsSync(left), asked], [true, []]);
    await second.discard();
    await provisioner.destroy(left);
    assert.deepEqual([existsSync(left), asked], [false, [id]]);
  });

  test('a program that fails in list, or lists nothing, says nothing of a volume', async () => {
    const { id } = await pool.create(spec('a'));
    storage.failIn('list');
    assert.equal((await pool.condition(id)).abnormal, false);
    await pool.close();
    pool = await openExecPool(
      scratch,
      directory.script(
        'lists-nothing',
        `[ "$1" = list ] && exec echo '{"status": "Not supported"}'\nexec ${path} "$@"`,
      ),
    );
    rmSync(storage.path(id), { recursive: true });
    assert.equal((await pool.condition(id)).abnormal, false);
  });

  test('its home reaches no volume', async () => {
    const { id } = await pool.create(spec('a'));
    await assert.rejects(pool.attach(id, { persistent: false }), FailedPrecondition);
    assert.deepEqual(await pool.attached(id), []);
    assert.equal((await pool.condition(id)).abnormal, false);
  });
});
