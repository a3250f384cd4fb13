import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';
import { copyImage } from '../../src/pool/kinds/image/copy.ts';
import { digestOf, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const never = new AbortController().signal;

describe('a copy of an image that is cut short', () => {
  test('T04: the next one goes on only with what is of its own source, whatever was tried in between', async () => {
    for (let call = 1; ; call++) {
      using scratch = new Scratch('copy');
      const first = image(scratch, 'first', 1);
      const second = image(scratch, 'second', 2, 4 << 20);
      const directory = scratch.join('draft');
      mkdirSync(directory);
      const copy = (fromPath: string, queue: DiskQueue, onProgress: () => void = () => undefined) =>
        copyImage(queue, new DirectorySync(), { fromPath, directory, onProgress, signal: never });
      const stop = () => {
        throw new Error('cut short');
      };
      await assert.rejects(copy(first, new DiskQueue('test', 4), stop), /cut short/);
      const isCutShort = await copy(second, new FailingQueue(call)).then(
        () => false,
        () => true,
      );
      if (!isCutShort) return;
      await copy(first, new DiskQueue('test', 4));
      assert.equal(digestOf(`${directory}/data`), digestOf(first), `the second one failed at its call ${call}`);
    }
  });

  test('T04: the next one begins anew if its source was written to meanwhile', async () => {
    using scratch = new Scratch('copy');
    const fromPath = image(scratch, 'source', 1);
    const directory = scratch.join('draft');
    mkdirSync(directory);
    const copy = (onProgress: () => void) =>
      copyImage(new DiskQueue('test', 4), new DirectorySync(), { fromPath, directory, onProgress, signal: never });
    const stop = () => {
      throw new Error('cut short');
    };
    await assert.rejects(copy(stop), /cut short/);
    image(scratch, 'source', 2);
    await copy(() => undefined);
    assert.equal(digestOf(`${directory}/data`), digestOf(fromPath));
  });

  test('K05: it stops after the piece that it is at when nobody waits for it any more', async () => {
    using scratch = new Scratch('copy');
    const fromPath = image(scratch, 'source', 1);
    const directory = scratch.join('draft');
    mkdirSync(directory);
    const waiting = new AbortController();
    let pieces = 0;
    const onProgress = () => {
      pieces++;
      waiting.abort(new Error('nobody waits'));
    };
    const options = { fromPath, directory, onProgress, signal: waiting.signal };
    await assert.rejects(copyImage(new DiskQueue('test', 4), new DirectorySync(), options), /nobody waits/);
    assert.equal(pieces, 1);
  });
});

/** Fails at one call, and at all after it. */
class FailingQueue extends DiskQueue {
  #callsLeft: number;

  constructor(call: number) {
    super('failing', 4);
    this.#callsLeft = call;
  }

  override run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    if (--this.#callsLeft <= 0) return Promise.reject(new Error('the disk is gone'));
    return super.run(work, onLate);
  }
}

/** Two stretches of data, or more, so that its copy is noted in between. */
function image(scratch: Scratch, name: string, byte: number, ...more: readonly number[]): string {
  const path = sparseFile(scratch.join(name), 16);
  const file = openSync(path, 'r+');
  for (const at of [0, 8 << 20, ...more]) writeSync(file, Buffer.alloc(1 << 20, byte), 0, 1 << 20, at);
  closeSync(file);
  return path;
}
