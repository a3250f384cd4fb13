import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Trash } from '../../src/pool/catalog/trash.ts';
import type { TrashEntry } from '../../src/pool/indexes/trash-entry.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import { groupIdFor, memberIdFor } from '../../src/volume/id.ts';
import { openTestBackend, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

/** The way to a disk that lets one call wait, if it is told to, until it is told to go on. */
class StallingQueue extends DiskQueue {
  #isNextStalled = false;
  #goOn: () => void = () => undefined;

  override async run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    if (this.#isNextStalled) {
      this.#isNextStalled = false;
      await new Promise<void>((resolve) => {
        this.#goOn = resolve;
      });
    }
    return super.run(work, onLate);
  }

  stallNext(): void {
    this.#isNextStalled = true;
  }

  goOn(): void {
    this.#goOn();
  }
}

/** A pool's trash with two deleted volumes, and nothing else of a pool. */
async function keepTwo(scratch: Scratch, queue = new DiskQueue('test', 4)) {
  const pool = await openTestPool(scratch, { undeleteSeconds: 3600 });
  for (const name of ['older', 'newer']) await pool.remove((await pool.create(volumeSpec(name))).id);
  await pool.close();
  const layout = new Layout(scratch.join('pool'));
  const backend = await openTestBackend(scratch, queue);
  const trash = new Trash({ backend, queue, onError: (ref, error) => assert.fail(`${ref}: ${error}`) });
  await trash.sweep();
  const [newer, older] = trash.entries() as [TrashEntry, TrashEntry];
  return { layout, newer, older, trash };
}

describe('what two do with the trash at a time', () => {
  test('a volume that is being brought back is not purged for its space', async () => {
    using scratch = new Scratch('meetings');
    const { newer, older, trash } = await keepTwo(scratch);
    const purging = trash.purgeEarly([older, newer]);
    // As `restore` does it, before it renames.
    trash.forget(newer);
    await purging;
    assert.deepEqual(readdirSync(newer.ref).sort(), ['data', 'deleted.json', 'volume.json']);
    assert.equal(existsSync(older.ref), false);
    await trash.close();
  });

  test('two who make room with the same volume both come to their end', async () => {
    using scratch = new Scratch('meetings');
    const { newer, older, trash } = await keepTwo(scratch);
    await Promise.all([trash.purgeEarly([older, newer]), trash.purgeKept()]);
    await trash.drained();
    assert.deepEqual([existsSync(older.ref), existsSync(newer.ref)], [false, false]);
    await trash.close();
  });

  test('a volume whose time ends is not kept again by who reads the trash meanwhile', async () => {
    using scratch = new Scratch('meetings');
    const queue = new StallingQueue('test', 4);
    const { newer, trash } = await keepTwo(scratch, queue);
    const { id } = newer.record;
    queue.stallNext();
    const purging = trash.purgeKept(id);
    await trash.reread(id);
    queue.goOn();
    await purging;
    assert.ok(!trash.entries().some(({ record }) => record.id === id));
    await trash.drained();
    assert.equal(existsSync(newer.ref), false);
    await trash.close();
  });
});

describe('a copy that nobody goes on with', () => {
  /** Keeps the trash busy for a while. */
  function fillDrafts(layout: Layout): void {
    mkdirSync(`${layout.drafts}/busy`, { recursive: true });
    for (let count = 0; count < 5000; count++) writeFileSync(`${layout.drafts}/busy/${count}`, '');
  }

  test('has lost its name when its group is removed: a new try never meets what is being unlinked', async () => {
    using scratch = new Scratch('meetings');
    const layout = new Layout(scratch.join('pool'));
    const first = await openTestPool(scratch);
    assert.equal(first.traits.snapshots, 'copy');
    const source = await first.create(volumeSpec('source'));
    await first.close();
    const groupId = groupIdFor('node', 'group');
    const draft = layout.copyDraft(memberIdFor(groupId, source.id));
    mkdirSync(draft);
    fillDrafts(layout);
    const pool = await openTestPool(scratch);
    assert.ok(existsSync(draft));
    await pool.removeGroup(groupId);
    assert.equal(existsSync(draft), false);
    await pool.close();
  });

  test('has lost its name when the pool is open: the same', async () => {
    using scratch = new Scratch('meetings');
    const layout = new Layout(scratch.join('pool'));
    await (await openTestPool(scratch)).close();
    const draft = layout.copyDraft(volumeSpec('copied').id);
    mkdirSync(draft);
    utimesSync(draft, 0, 0);
    fillDrafts(layout);
    const pool = await openTestPool(scratch);
    assert.equal(existsSync(draft), false);
    await pool.close();
    assert.deepEqual(readdirSync(layout.trash), []);
  });
});
