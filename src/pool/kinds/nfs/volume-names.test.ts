import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { Scratch } from '../../../../test/support/scratch.ts';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { type VolumeId, volumeIdFor } from '../../../volume/id.ts';
import { Layout } from '../../records/layout.ts';
import { VolumeNames } from './volume-names.ts';

const [one, other] = [volumeIdFor('node', 'pool', 'one'), volumeIdFor('node', 'pool', 'other')];

/** A pool's directory, on any filesystem: only names are at stake. */
class Pool {
  readonly layout: Layout;
  readonly names: VolumeNames;

  constructor(scratch: Scratch) {
    this.layout = new Layout(scratch.join('pool'));
    this.names = new VolumeNames(new DiskQueue('names', 1), this.layout);
    for (const path of [this.layout.volumes, this.layout.drafts]) mkdirSync(path, { recursive: true });
  }

  make(name: string, id: VolumeId): Promise<void> {
    return this.names.take(name, id, async () => {
      mkdirSync(this.layout.data(id), { recursive: true });
      writeFileSync(join(this.layout.data(id), 'of'), id);
    });
  }

  async remove(name: string, id: VolumeId): Promise<void> {
    rmSync(this.layout.volume(id), { recursive: true });
    await this.names.release(name, id);
  }

  read(name: string): string {
    return readFileSync(join(this.layout.root, 'names', name, 'of'), 'utf8');
  }

  /** Links are not followed. */
  get all(): string[] {
    const below = (directory: string): string[] =>
      readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
        const path = join(directory, entry.name);
        return [path, ...(entry.isDirectory() ? below(path) : [])];
      });
    const root = join(this.layout.root, 'names');
    return below(root)
      .map((path) => relative(root, path))
      .sort();
  }
}

describe('names of volumes on NFS', () => {
  test('a volume is found by its name, which goes with it, and with the directories that nothing else is in', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    await pool.make('shop/one', one);
    await pool.make('shop/other', other);
    assert.deepEqual([pool.read('shop/one'), pool.read('shop/other')], [one, other]);
    assert.ok(readlinkSync(join(pool.layout.root, 'names/shop/one')).startsWith('../../volumes/'), 'relative');
    await pool.remove('shop/one', one);
    assert.deepEqual(pool.all, ['shop', 'shop/other']);
    await pool.remove('shop/other', other);
    assert.deepEqual(pool.all, []);
    assert.deepEqual(readdirSync(pool.layout.drafts), []);
  });

  test('no two volumes have one name, and none is made inside of another one', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    await pool.make('shop', one);
    await assert.rejects(pool.make('shop', other), (error: Error) => {
      assert.ok(error instanceof FailedPrecondition);
      assert.match(error.message, new RegExp(`shop is the name of volume ${one} in names of its pool`));
      return true;
    });
    await assert.rejects(pool.make('shop/below', other), FailedPrecondition);
    assert.deepEqual(readdirSync(pool.layout.data(one)), ['of']);
    await pool.remove('shop', one);
    await pool.make('shop/below', other);
    await assert.rejects(pool.make('shop', one), FailedPrecondition);
    assert.equal(pool.read('shop/below'), other);
  });

  test('of two volumes that ask for one name at a time, one is made', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    const outcomes = await Promise.allSettled([pool.make('shop', one), pool.make('shop', other)]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    assert.equal(pool.read('shop'), one);
    assert.ok(!existsSync(pool.layout.volume(other)));
  });

  test('a name that leads nowhere is free: its volume was never made, or is gone', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    await assert.rejects(
      pool.names.take('shop', one, async () => Promise.reject(new Error('killed'))),
      /killed/,
    );
    await pool.make('shop', other);
    assert.equal(pool.read('shop'), other);
    // The first one is deleted, at last.
    await pool.names.release('shop', one);
    assert.equal(pool.read('shop'), other);
    // The same request again.
    rmSync(pool.layout.volume(other), { recursive: true });
    await pool.make('shop', other);
    assert.equal(pool.read('shop'), other);
  });

  test('a volume that was brought back keeps its name', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    await pool.make('shop', one);
    await pool.names.release('shop', one);
    assert.equal(pool.read('shop'), one);
  });

  test('a link or a file of other programs is left alone', async () => {
    using scratch = new Scratch('names');
    const pool = new Pool(scratch);
    mkdirSync(join(pool.layout.root, 'names'));
    mkdirSync(scratch.join('outside'));
    symlinkSync(scratch.join('outside'), join(pool.layout.root, 'names/foreign'));
    writeFileSync(join(pool.layout.root, 'names/file'), '');
    for (const name of ['foreign', 'foreign/below', 'file', 'file/below']) {
      await assert.rejects(pool.make(name, one), FailedPrecondition, name);
    }
    await pool.names.release('foreign', one);
    await pool.names.release('file', one);
    assert.deepEqual([pool.all, readdirSync(scratch.join('outside'))], [['file', 'foreign'], []]);
  });
});
