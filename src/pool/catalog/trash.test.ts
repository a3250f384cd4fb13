import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { InternalError } from '../../volume/errors.ts';
import type { Provisioner, RecordStore } from '../backend.ts';
import type { TrashEntry, TrashRef } from '../indexes/trash-entry.ts';
import { Trash } from './trash.ts';

/** A kind that wipes: each destruction ends when the test ends it. */
class SlowKind {
  readonly begun: { readonly ref: TrashRef; readonly end: (error?: Error) => void }[] = [];

  /** The trash of a pool of this kind; nothing else of it is asked here. */
  open(errors: unknown[] = []): Trash {
    const provisioner = { destroysSlowly: true, destroy: (ref) => this.#destroy(ref) } as Partial<Provisioner>;
    const backend = { provisioner: provisioner as Provisioner, records: {} as RecordStore };
    return new Trash({ backend, queue: new DiskQueue('test', 1), onError: (_ref, error) => errors.push(error) });
  }

  #destroy(ref: TrashRef): Promise<void> {
    return new Promise((resolve, reject) => {
      this.begun.push({ ref, end: (error) => (error === undefined ? resolve() : reject(error)) });
    });
  }
}

/** One volume in the trash, whose time is over. */
async function openExpired(destroy: () => Promise<void>): Promise<Trash> {
  const deletion = { deletedAt: '2026-01-01T00:00:00Z', purgeAt: '2026-01-02T00:00:00Z', poolAgeMs: 0 };
  const entry = { ...deletion, ref: 'old', record: { id: 'vol-old' } } as unknown as TrashEntry;
  const provisioner: Partial<Provisioner> = { destroy, mark: turn, leftDrafts: async () => [] };
  const records: Partial<RecordStore> = {
    readTrash: async () => ({ kept: [entry], unkept: [], unreadable: [] }),
    readAge: async () => `${`${365 * 24 * 3600_000}`.padStart(15)} ${new Date().toISOString()}\n`,
    writeAge: async () => undefined,
  };
  const backend = { provisioner: provisioner as Provisioner, records: records as RecordStore };
  return new Trash({ backend, queue: new DiskQueue('test', 1), onError: (_ref, error) => assert.fail(`${error}`) });
}

/** Lets everything go on that waits for nothing but its turn. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('what takes long to destroy', () => {
  test('is destroyed by one at a time, however often it is asked for: its place is another volume’s afterwards', async () => {
    const kind = new SlowKind();
    const trash = kind.open();
    trash.destroy('a');
    trash.destroy('b');
    trash.destroy('a');
    await turn();
    assert.deepEqual(kind.begun.map(({ ref }) => ref).sort(), ['a', 'b']);
    for (const { end } of kind.begun) end();
    await trash.close();
    assert.equal(kind.begun.length, 2);
  });

  test('is tried again, ever later, when it could not be', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const kind = new SlowKind();
    const errors: unknown[] = [];
    const trash = kind.open(errors);
    trash.destroy('a');
    const triesAt: number[] = [];
    for (let look = 0; look < 16; look++) {
      await turn();
      if (kind.begun.length > triesAt.length) {
        triesAt.push(look);
        kind.begun.at(-1)?.end(look === 15 ? undefined : new InternalError('held'));
        await turn();
      }
      t.mock.timers.tick(30_000);
    }
    assert.deepEqual(triesAt, [0, 1, 3, 7, 15]);
    assert.equal(errors.length, 4);
    for (let look = 0; look < 100; look++) t.mock.timers.tick(30_000);
    await trash.close();
    assert.equal(kind.begun.length, 5);
  });
});

test('a pool is not let go before what has had its time is gone', async () => {
  let isGone = false;
  const trash = await openExpired(async () => {
    await turn();
    isGone = true;
  });
  await trash.sweep();
  await trash.close();
  assert.equal(isGone, true);
});
