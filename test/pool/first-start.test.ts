import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { opendirSync, readdirSync, symlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Catalog } from '../../src/pool/catalog/catalog.ts';
import { PoolHeld } from '../../src/pool/location/lock.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const gibibyte = 1n << 30n;

describe('two first starts on one backing file', () => {
  test('one gets the pool, the other is told who has it', async () => {
    for (let round = 0; round < 20; round++) {
      using scratch = new Scratch('first');
      const location = round % 2 === 0 ? { type: 'file', path: scratch.join('pool.img') } : { type: 'auto' };
      const options = { location: { ...location, sizeBytes: gibibyte } as never };
      const starts = await Promise.allSettled([openTestPool(scratch, options), openTestPool(scratch, options)]);
      const pools = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
      const reasons = starts.flatMap((start) => (start.status === 'rejected' ? [start.reason] : []));
      for (const pool of pools) await pool.close();
      assert.equal(pools.length, 1, reasons.join('\n'));
      assert.ok(reasons[0] instanceof PoolHeld, `${reasons[0]}`);
      const place = round % 2 === 0 ? scratch.path : scratch.join('data/pools');
      assert.deepEqual(leftovers(place), []);
    }
  });

  test('a file that is named by a symlink is found again while it is mounted', async () => {
    using scratch = new Scratch('first');
    const path = scratch.join('link.img');
    const location = { type: 'file', path, sizeBytes: gibibyte } as const;
    await (await openTestPool(scratch, { location: { ...location, path: scratch.join('pool.img') } })).close();
    symlinkSync('pool.img', path);
    const first = await openTestPool(scratch, { location });
    {
      using _user = opendirSync(scratch.join('data/pools/test'));
      await first.close();
      await (await openTestPool(scratch, { location })).close();
    }
    await (await openTestPool(scratch, { location })).close();
  });

  test('one that stalls anywhere never replaces what the other one uses', async () => {
    for (let call = 1; ; call++) {
      using scratch = new Scratch('first');
      const path = scratch.join('pool.img');
      const location = { type: 'file', path, sizeBytes: gibibyte } as const;
      const queue = new StallingQueue(call);
      const first = openTestPool(scratch, { location, queue }).then(
        (pool) => ({ pool, refusal: undefined }),
        (refusal: unknown) => ({ pool: undefined, refusal }),
      );
      await eventually(() => assert.ok(queue.isStalled));
      const second = await openTestPool(scratch, { location }).catch((error: unknown) => error);
      const record = second instanceof Catalog ? await second.create(volumeSpec('acknowledged')) : undefined;
      queue.goOn();
      const { pool, refusal } = await first;
      await pool?.close();
      if (!(second instanceof Catalog)) {
        assert.ok(second instanceof PoolHeld, `the second, when call ${call} of the first stalls: ${second}`);
        assert.equal(refusal, undefined);
        assert.ok(call > 5, 'it has stalled before it had the lock, too');
        return;
      }
      assert.ok(refusal instanceof PoolHeld, `the first, stalled at its call ${call}: ${refusal}`);
      await second.close();
      const again = await openTestPool(scratch, { location });
      assert.equal(
        (await again.find(record?.id ?? volumeSpec('').id))?.name,
        'acknowledged',
        `stalled at call ${call}`,
      );
      await again.close();
      assert.deepEqual(leftovers(scratch.path), []);
    }
  });
});

/** The way to a disk that answers all calls but one, until it is told to. */
class StallingQueue extends DiskQueue {
  isStalled = false;
  #callsLeft: number;
  readonly #gate = new EventEmitter();

  constructor(call: number) {
    super('stalling', 4);
    this.#callsLeft = call;
  }

  override async run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    if (--this.#callsLeft === 0) {
      this.isStalled = true;
      await once(this.#gate, 'open');
    }
    return super.run(work, onLate);
  }

  goOn(): void {
    this.#gate.emit('open');
  }
}

function leftovers(directory: string): string[] {
  return readdirSync(directory).filter((name) => name.includes('.new'));
}
