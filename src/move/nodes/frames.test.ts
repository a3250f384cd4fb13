import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DataLoss } from '../../volume/errors.ts';
import { pieceBytes } from '../copy.ts';
import { NotConnected } from '../source.ts';
import { type ByteSource, FramesAhead } from './frames.ts';
import { frameHead, frameTypes, pieceFrame } from './wire.ts';

const length = Number(pieceBytes);

/** Bytes that have come already, and then a cut. */
class Sent implements ByteSource {
  readonly #bytes: Buffer;
  at = 0;

  constructor(...parts: readonly Buffer[]) {
    this.#bytes = Buffer.concat(parts);
  }

  async read(memory: Buffer): Promise<void> {
    if (this.at + memory.length > this.#bytes.length) throw new Error('cut off');
    this.at += this.#bytes.copy(memory, 0, this.at, this.at + memory.length);
  }
}

function data(byte: number, offsetBytes: bigint): Buffer[] {
  const bytes = Buffer.alloc(length, byte);
  return [
    ...pieceFrame({
      ...{ offsetBytes, lengthBytes: length },
      data: { bytes, digest: Buffer.alloc(32, byte), free: () => undefined },
    }),
  ];
}

function zeros(offsetBytes: bigint): Buffer[] {
  return [...pieceFrame({ offsetBytes, lengthBytes: length, data: undefined })];
}

const settled = async () => {
  for (let turn = 0; turn < 1000; turn++) await new Promise(setImmediate);
};

describe('frames that come ahead', () => {
  test('have the bytes that were sent, in memory that is used in turn, and come before what cuts them off', async () => {
    const pieces = Array.from({ length: 20 }, (_, index) => data(index, BigInt(index) * pieceBytes)).flat();
    const frames = new FramesAhead(new Sent(...pieces));
    const memories = new Set<ArrayBufferLike>();
    for (let index = 0; index < 20; index++) {
      const { body, digest, free, offsetBytes, type } = await frames.next();
      assert.deepEqual([type, offsetBytes], [frameTypes.data, BigInt(index) * pieceBytes]);
      assert.ok(body.equals(Buffer.alloc(length, index)) && digest.equals(Buffer.alloc(32, index)));
      memories.add(body.buffer);
      free();
    }
    assert.ok(memories.size <= 8, `${memories.size}`);
    await assert.rejects(frames.next(), /cut off/);
  });

  test('wait for the target: no more than a few pieces are in memory', async () => {
    const sent = new Sent(...Array.from({ length: 20 }, (_, index) => data(index, BigInt(index) * pieceBytes)).flat());
    const frames = new FramesAhead(sent);
    await settled();
    // The ninth has only its head here.
    assert.equal(Math.floor(sent.at / length), 8);
    const first = await frames.next();
    first.free();
    await settled();
    assert.equal(Math.floor(sent.at / length), 9);
  });

  test('of zeros wait for the target, too', async () => {
    const head = zeros(0n).reduce((sum, part) => sum + part.length, 0);
    const sent = new Sent(...Array.from({ length: 200 }, (_, index) => zeros(BigInt(index) * pieceBytes)).flat());
    const frames = new FramesAhead(sent);
    await settled();
    assert.equal(sent.at, 64 * head);
    for (let index = 0; index < 200; index++) {
      assert.equal((await frames.next()).offsetBytes, BigInt(index) * pieceBytes);
    }
  });

  test('of later versions are passed over, with their bodies', async () => {
    const later = Buffer.concat([frameHead(9, 0n, 10), Buffer.alloc(10, 7)]);
    const row = Array.from({ length: 64 }, () => later);
    const frames = new FramesAhead(new Sent(later, ...zeros(0n), ...row, ...zeros(pieceBytes), ...row, later));
    assert.equal((await frames.next()).offsetBytes, 0n);
    assert.equal((await frames.next()).offsetBytes, pieceBytes);
    await assert.rejects(frames.next(), NotConnected);
  });

  test('that are longer than a piece are none of ours', async () => {
    const frames = new FramesAhead(new Sent(frameHead(frameTypes.data, 0n, length + 1)));
    await assert.rejects(frames.next(), DataLoss);
  });
});
