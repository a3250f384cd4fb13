/**
 * Runs in the virtual machine: what encrypted volumes promise beyond the contract of their pools.
 * node layer-in-guest.ts DIRECTORY
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { DeviceMapper, mappedPath } from '../../../src/kernel/block/device-mapper.ts';
import { diskFaultOf } from '../../../src/kernel/block/disk-fault.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import type { ByteRange } from '../../../src/kernel/file/sparse.ts';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import { openMapper } from '../../../src/pool/layers/luks/mapper.ts';
import { LuksPrograms } from '../../../src/pool/layers/luks/programs.ts';
import { openStill } from '../../../src/pool/mapped-device.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import {
  DataLoss,
  FailedPrecondition,
  type HoldfastError,
  InvalidArgument,
  Unavailable,
} from '../../../src/volume/errors.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { mapperName } from '../../../src/volume/mapper-name.ts';
import { Secrets } from '../../../src/volume/secrets.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestPool, volumeSpec } from '../../support/image-pool.ts';
import { withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { isSaid, longestMessageCharacters, openingQuotes, quotesOf } from '../../support/troubleshooting.ts';
import { overwrite, read } from './bytes.ts';
import { assertCounts } from './counted-operations.ts';
import { openWithLayer } from './encrypted-pool.ts';

const [, , mountPoint = ''] = process.argv;
const mebibyte = 1n << 20n;
const block = { type: 'block' } as const;
const newKey = () => randomBytes(32).toString('base64');
const encrypted = { encryption: 'luks2', content: block } as const;

async function withPool(work: (pool: Pool, scratch: Scratch) => Promise<void>): Promise<void> {
  using scratch = new Scratch('luks');
  const pool = await openWithLayer(mountPoint, scratch);
  await work(pool, scratch);
  await pool.close();
}

const dataOf = (scratch: Scratch, id: string) =>
  join(mountPoint, basename(scratch.path), 'pool', 'volumes', id, 'data');

async function use(pool: Pool, id: Parameters<Pool['attach']>[0], secrets: Secrets, work: (path: string) => void) {
  const attachment = await attachDevice(pool, id, { persistent: false, secrets });
  try {
    work(attachment.devicePath);
  } finally {
    await attachment.release();
  }
  await eventually(async () => assert.deepEqual(await pool.attached(id), []));
}

/** Also for who has it open: without its keys. */
async function isUnreadableAfter(path: string, work: () => Promise<void>): Promise<void> {
  const file = openSync(path, 'r');
  await work();
  const rest = Buffer.alloc(1 << 20);
  readSync(file, rest, 0, rest.length, 0);
  closeSync(file);
  assert.ok(rest.equals(Buffer.alloc(rest.length)), `the header is still there: ${path}`);
}

const devicePathOf = (name: string) =>
  `/dev/dm-${execFileSync('dmsetup', ['info', '--columns', '--noheadings', '-o', 'minor', name], { encoding: 'utf8' }).trim()}`;

const messages: string[] = [];

/** @returns what it says */
async function refused(call: Promise<unknown>, kind: typeof HoldfastError): Promise<string> {
  const error = await call.then(
    () => assert.fail('nothing was refused'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof kind, `${error}`);
  messages.push(error.message);
  return error.message;
}

describe('encrypted volumes', () => {
  test('a wrong key, no key and a damaged header are told, and nothing is changed', async () => {
    await withPool(async (pool, scratch) => {
      const key = newKey();
      const secrets = new Secrets({ key });
      const { encryption, id } = await pool.create({ ...volumeSpec('errors', encrypted), secrets });
      const data = dataOf(scratch, id);
      const before = read(data, 1 << 20);
      const attach = (given: Secrets) => attachDevice(pool, id, { persistent: false, secrets: given });
      const wrong = attach(new Secrets({ key: newKey() }));
      const message = await refused(wrong, FailedPrecondition);
      assert.ok(message.includes(encryption?.keyId ?? '?'), message);
      await assert.rejects(attach(new Secrets({ key: 'short' })), InvalidArgument);
      await assert.rejects(attach(new Secrets({ passphrase: 'with a line break\n' })), InvalidArgument);
      // Without a secret the pool's own key is tried, which is another one.
      await assert.rejects(attach(new Secrets({})), FailedPrecondition);
      assert.deepEqual(await pool.attached(id), []);
      assert.ok(read(data, 1 << 20).equals(before), 'something was written');

      overwrite(data, Buffer.alloc(1 << 20));
      await refused(attach(secrets), DataLoss);
      assert.ok(read(data, 1 << 20).equals(Buffer.alloc(1 << 20)), 'something was written');
      overwrite(data, before);
      // One of its two copies is enough.
      overwrite(data, Buffer.alloc(4096));
      await use(pool, id, secrets, () => undefined);
    });
  });

  test('a mapper of its name over another device is left alone, and told', async () => {
    await withPool(async (pool, scratch) => {
      const { id } = await pool.create(volumeSpec('foreign', encrypted));
      const name = mapperName(id);
      const other = scratch.join('other.img');
      writeFileSync(other, Buffer.alloc(1 << 20));
      const loop = execFileSync('losetup', ['--find', '--show', other], { encoding: 'utf8' }).trim();
      execFileSync('dmsetup', ['create', name, '--table', `0 2048 linear ${loop} 0`]);
      await refused(attachDevice(pool, id, { persistent: true }), FailedPrecondition);
      execFileSync('dmsetup', ['remove', name]);
      execFileSync('losetup', ['--detach', loop]);
      // What is left of a device that is gone has no table that leads anywhere.
      execFileSync('dmsetup', ['create', name, '--table', '0 2048 error']);
      await refused(attachDevice(pool, id, { persistent: true }), FailedPrecondition);
      execFileSync('dmsetup', ['remove', name]);
      await use(pool, id, new Secrets({}), () => undefined);
    });
  });

  test('T03: a mapper that cryptsetup was killed over before it had a table is made anew', async () => {
    await withPool(async (pool) => {
      const { id } = await pool.create(volumeSpec('cut short', encrypted));
      execFileSync('dmsetup', ['create', mapperName(id), '--notable']);
      await use(pool, id, new Secrets({}), () => undefined);
    });
  });

  test('a mapper that goes only when a program closes it is told, and made again after that', async () => {
    await withPool(async (pool) => {
      const { id } = await pool.create(volumeSpec('held', encrypted));
      const attachment = await attachDevice(pool, id, { persistent: false });
      const held = openSync(attachment.devicePath, 'r');
      try {
        await attachment.release();
        await refused(attachDevice(pool, id, { persistent: true }), FailedPrecondition);
      } finally {
        closeSync(held);
      }
      await use(pool, id, new Secrets({}), () => undefined);
    });
  });

  test('EN01: the number of a mapper that has gone is that of the next one, which is not opened in its place', async () => {
    const queue = new DiskQueue('still', 1);
    const mapper = await DeviceMapper.open(queue);
    const make = (name: string) => {
      execFileSync('dmsetup', ['create', '--noudevsync', name, '--uuid', `TEST-${name}`, '--table', '0 2048 zero']);
      return mapper.find(name) ?? assert.fail(`there is no ${name}`);
    };
    const remove = (name: string) => execFileSync('dmsetup', ['remove', '--noudevsync', name]);
    const found = make('meant');
    const wanted = { device: found.device, devicePath: mappedPath(found.device) };
    const open = () => openStill(queue, wanted, async () => mapper.find({ uuid: 'TEST-meant' })?.device);
    await (await open())?.[Symbol.asyncDispose]();
    remove('meant');
    const next = make('of-another');
    try {
      assert.deepEqual(next.device, found.device);
      assert.equal(await open(), undefined);
      // It is there again, by another number.
      make('meant');
      assert.equal(await open(), undefined);
    } finally {
      for (const name of ['of-another', 'meant']) remove(name);
    }
  });

  test('EN05: a header that cannot be read is not called damaged, and the pool hears of its disk', async () => {
    await withPool(async (pool, scratch) => {
      const key = { bytes: randomBytes(32), isRandom: true };
      const secrets = new Secrets({ key: Buffer.from(key.bytes).toString('base64') });
      const record = await pool.create({ ...volumeSpec('sick', encrypted), secrets });
      const data = dataOf(scratch, record.id);
      const loop = execFileSync('losetup', ['--find', '--show', '--read-only', data], { encoding: 'utf8' }).trim();
      const queue = new DiskQueue('sick', 2);
      const heard: unknown[] = [];
      queue.onFailure = (error) => heard.push(error);
      const open = async (table: string) => {
        execFileSync('dmsetup', ['create', '--noudevsync', '--readonly', 'sick'], { input: table });
        try {
          const parts = { queue, programs: new LuksPrograms(queue) };
          await openMapper(parts, record, { devicePath: devicePathOf('sick'), name: 'never', key });
        } finally {
          execFileSync('dmsetup', ['remove', '--noudevsync', '--retry', 'sick']);
        }
      };
      // All of it; or the keys alone.
      for (const table of ['0 131072 error', `0 64 linear ${loop} 0\n64 131008 error`]) {
        heard.length = 0;
        await refused(open(table), Unavailable);
        assert.ok(
          heard.some((error) => diskFaultOf(error) !== undefined),
          'the pool has heard nothing',
        );
      }
      await assert.rejects(open(`0 2048 linear ${loop} 0`), /has become smaller than its header|cryptsetup failed/);
      execFileSync('losetup', ['--detach', loop]);
    });
  });

  test('what was said until here is in docs/troubleshooting.md, and what is there was said', () => {
    for (const message of messages) {
      assert.ok(message.length <= longestMessageCharacters, message);
      assert.equal(quotesOf(message).length, 1, message);
    }
    assert.deepEqual(
      openingQuotes.filter((quote) => !isSaid(quote, messages)),
      [],
    );
  });

  test('a change of the key takes the old one away; snapshots of before say which key they need', async () => {
    await withPool(async (pool) => {
      const [first, second] = [newKey(), newKey()];
      const { encryption, id } = await pool.create({
        ...volumeSpec('rekeyed', encrypted),
        secrets: new Secrets({ key: first }),
      });
      const snapshot = { id: snapshotIdFor('node', 'before'), name: 'before', sourceId: id, parameters: {} };
      const [cut] = await pool.takeSnapshots([snapshot]);
      const both = new Secrets({ key: second, previousKey: first });
      for (let time = 0; time < 2; time++) await use(pool, id, both, () => undefined);
      const renamed = (await pool.find(id))?.encryption;
      assert.notEqual(renamed?.keyId, encryption?.keyId);
      assert.equal(cut?.encryption?.keyId, encryption?.keyId);
      await use(pool, id, new Secrets({ key: second }), () => undefined);
      await assert.rejects(
        use(pool, id, new Secrets({ key: first }), () => undefined),
        FailedPrecondition,
      );

      // The Secret has both from the change on, and so has a restore of what has the key of before.
      const spec = { ...volumeSpec('files', { encryption: 'luks2' }), secrets: new Secrets({ key: first }) };
      const files = await pool.create(spec);
      const before = { id: snapshotIdFor('node', 'files'), name: 'files', sourceId: files.id, parameters: {} };
      await pool.takeSnapshots([before]);
      await use(pool, files.id, both, () => undefined);
      const restored = await pool.create(
        { ...volumeSpec('EN06', { encryption: 'luks2' }), secrets: both },
        { type: 'snapshot', id: before.id },
      );
      await use(pool, restored.id, both, () => undefined);
      await use(pool, restored.id, new Secrets({ key: second }), () => undefined);

      const clone = await pool.create(volumeSpec('old key', { content: block }), { type: 'snapshot', id: snapshot.id });
      assert.deepEqual(clone.encryption, encryption);
      await use(pool, clone.id, new Secrets({ key: first }), () => undefined);
      await assert.rejects(
        use(pool, clone.id, new Secrets({ key: second }), () => undefined),
        FailedPrecondition,
      );
    });
  });

  test('a passphrase is stretched, and opens what it was given for', async () => {
    await withPool(async (pool, scratch) => {
      const secrets = new Secrets({ passphrase: 'correct horse battery staple' });
      const { id } = await pool.create({ ...volumeSpec('phrase', encrypted), secrets });
      assert.match(read(dataOf(scratch, id), 1 << 15).toString('latin1'), /"type":"argon2id","time":4,"memory":65536/);
      await use(pool, id, secrets, () => undefined);
    });
  });

  test('no key, and nothing of the data, is on the disk in the clear; gone is gone at once, also for its clones', async () => {
    await withPool(async (pool, scratch) => {
      const key = newKey();
      const secrets = new Secrets({ key });
      const marker = Buffer.concat(Array.from({ length: 256 }, () => Buffer.from('what nobody may see ')));
      const { id } = await pool.create({ ...volumeSpec('secret', encrypted), secrets });
      await use(pool, id, secrets, (path) => overwrite(path, marker, 1 << 20));
      const clone = await pool.create(
        { ...volumeSpec('its clone', { content: block }), secrets },
        { type: 'volume', id },
      );
      execFileSync('sync');
      const hex = Buffer.from(key, 'base64').toString('hex');
      const volumes = join(mountPoint, basename(scratch.path), 'pool', 'volumes');
      for (const name of readdirSync(volumes, { recursive: true, encoding: 'utf8' })) {
        if (!/\/(data|volume\.json)$/.test(name)) continue;
        const bytes = readFileSync(join(volumes, name));
        for (const text of [key, hex, 'what nobody may see'])
          assert.ok(!bytes.includes(text), `${name} has a secret in it`);
      }

      const snapshotId = snapshotIdFor('node', 'secret');
      await pool.takeSnapshots([{ id: snapshotId, name: 'secret', sourceId: id, parameters: {} }]);
      const inSnapshot = join(mountPoint, basename(scratch.path), 'pool', 'snapshots', snapshotId, 'data');
      await isUnreadableAfter(inSnapshot, () => pool.removeSnapshot(snapshotId));
      await isUnreadableAfter(dataOf(scratch, id), () => pool.remove(id));
      await use(pool, clone.id, secrets, (path) => {
        assert.ok(read(path, marker.length, 1 << 20).equals(marker), 'the clone lost its data');
      });
    });
  });

  test('start cryptsetup as often as the document says, and never with a key', async () => {
    using scratch = new Scratch('luks');
    await assertCounts(() => openWithLayer(mountPoint, scratch), scratch);
  });

  test('a pool without the layer refuses nothing that is not encrypted', async () => {
    using scratch = new Scratch('luks');
    const pool = await openTestPool(scratch, {});
    assert.equal(pool.traits.encryption, undefined);
    await pool.close();
  });

  test('a damaged filesystem is repaired in its encryption; the header is no changed block', async (t) => {
    await withPool(async (pool, scratch) => {
      if (pool.traits.snapshots !== 'reflink') return t.skip('no clones at once here');
      const { id } = await pool.create({ ...volumeSpec('mended'), encryption: 'luks2' });
      await withMounted(pool, id, scratch, (path) => writeFileSync(`${path}/file`, 'whole'));
      await eventually(async () => assert.deepEqual(await pool.attached(id), []));
      await pool.repair(id, 'ext4');
      await withMounted(pool, id, scratch, (path) => assert.equal(readFileSync(`${path}/file`, 'utf8'), 'whole'));

      const raw = await pool.create(volumeSpec('ranges', encrypted));
      await use(pool, raw.id, new Secrets({}), (path) => overwrite(path, randomBytes(4096), 32 << 20));
      const target = snapshotIdFor('node', 'ranges');
      await pool.takeSnapshots([{ id: target, name: 'ranges', sourceId: raw.id, parameters: {} }]);
      const request = { base: undefined, target, fromBytes: 0n, signal: new AbortController().signal };
      const ranges: ByteRange[] = [];
      for await (const range of pool.changedRanges(request)) ranges.push(range);
      assert.deepEqual(ranges, [{ offsetBytes: 32n * mebibyte, lengthBytes: 4096n }]);
    });
  });
});
