import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Piece } from '../copy.ts';
import type { Reading } from '../source.ts';
import { Reads } from './reads.ts';
import { Walks } from './walks.ts';

const id = 'vol' as VolumeId;
const data = { bytes: Buffer.alloc(1), digest: Buffer.alloc(0), free: () => undefined };

/** A source that passes a record whenever it may, and then sends a piece of data. */
class SlowSource {
  readonly walks = new Walks();
  readonly reads = new Reads();
  begun = 0;
  open = 0;
  #mayStep = Promise.withResolvers<void>();

  /** Walks on by one step. */
  async step(): Promise<void> {
    const { resolve } = this.#mayStep;
    this.#mayStep = Promise.withResolvers<void>();
    resolve();
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  }

  take(signal: AbortSignal, key = 'place'): Promise<Reading> {
    const during = (walk: (ended: AbortSignal) => Promise<void>) =>
      this.reads.during(id, { moveId: 'move', isFenced: true }, walk);
    return this.walks.take({ id, key, signal, during, read: async (until) => this.#read(until) });
  }

  #read(signal: AbortSignal): Reading {
    this.begun++;
    this.open++;
    const may = () => this.#mayStep.promise;
    async function* pieces(): AsyncGenerator<Piece, void, void> {
      for (let at = 0n; at < 3n; at++) {
        await Promise.race([may(), new Promise((resolve) => signal.addEventListener('abort', resolve))]);
        signal.throwIfAborted();
        yield { offsetBytes: at, lengthBytes: 1, data: undefined };
      }
      yield { offsetBytes: 100n, lengthBytes: 1, data };
      yield { offsetBytes: 101n, lengthBytes: 1, data };
    }
    return {
      ...{ record: {} as VolumeRecord, endBytes: 200n, totalBytes: 2n, pieces: pieces() },
      [Symbol.asyncDispose]: async () => void this.open--,
    };
  }
}

/** A connection that reads pieces until it is cut. */
async function connect(source: SlowSource, key?: string) {
  const gone = new AbortController();
  const reading = await source.take(gone.signal, key);
  const pieces = reading.pieces[Symbol.asyncIterator]();
  const next = async () => {
    const { done, value } = await pieces.next();
    return done === true ? 'end' : [Number(value.offsetBytes), value.lengthBytes, value.data !== undefined];
  };
  const cut = async () => {
    gone.abort();
    await pieces.return?.();
    await reading[Symbol.asyncDispose]();
  };
  return { next, cut };
}

describe('a walk to the place where a copy was cut short', () => {
  test('goes on while its connection is cut, and the next one takes it up', async () => {
    const source = new SlowSource();
    const first = await connect(source);
    await source.step();
    assert.deepEqual(await first.next(), [0, 1, false]);
    await first.cut();
    await source.step();
    await source.step();
    const second = await connect(source);
    assert.equal(source.begun, 1);
    assert.deepEqual(await second.next(), [0, 3, false]);
    assert.deepEqual(await second.next(), [100, 1, true]);
    await second.cut();
    await source.step();
    assert.equal(source.open, 0);
  });

  test('begins again once data was sent, for another place, and for one that is gone', async () => {
    const source = new SlowSource();
    const first = await connect(source);
    for (let at = 0; at < 3; at++) await source.step();
    assert.deepEqual(
      [await first.next(), await first.next()],
      [
        [0, 3, false],
        [100, 1, true],
      ],
    );
    // It is cut, and that is not known here yet.
    const second = await connect(source);
    assert.equal(source.begun, 2);
    await first.cut();
    await second.cut();
    await connect(source, 'another place');
    assert.equal(source.begun, 3);
    await source.walks.close();
    assert.equal(source.open, 0);
  });

  test('is left by an earlier connection when another one takes it up', async () => {
    const source = new SlowSource();
    const first = await connect(source);
    const waiting = assert.rejects(first.next(), /by another connection/);
    const second = await connect(source);
    await source.step();
    await waiting;
    await first.cut();
    assert.deepEqual(await second.next(), [0, 1, false]);
    for (let at = 0; at < 2; at++) await source.step();
    assert.deepEqual(
      [await second.next(), await second.next(), await second.next(), await second.next()],
      [[1, 2, false], [100, 1, true], [101, 1, true], 'end'],
    );
    await second.cut();
    await source.step();
    assert.deepEqual([source.begun, source.open], [1, 0]);
  });

  test('ends with the fence, also without a connection', async () => {
    const source = new SlowSource();
    const first = await connect(source);
    await first.cut();
    await source.reads.end(id);
    assert.equal(source.open, 0);
    await connect(source);
    assert.equal(source.begun, 2);
    await source.walks.close();
  });
});
