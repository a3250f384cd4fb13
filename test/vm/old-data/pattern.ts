import assert from 'node:assert/strict';
import { read } from '../luks/bytes.ts';

const wordBytes = 16;
const pieceBytes = 1 << 20;
const zeros = Buffer.alloc(pieceBytes);

/** What an owner writes all over its volume: its number, again and again. */
export function patternOf(owner: number, lengthBytes: number): Buffer {
  return Buffer.alloc(lengthBytes, `owner ${owner}`.padEnd(wordBytes, '.'));
}

/** The whole of what is read was written by nobody. @throws with whose it is */
export function assertNobodys(devicePath: string, fromBytes: number, toBytes: number): void {
  for (let at = fromBytes; at < toBytes; at += pieceBytes) {
    const piece = read(devicePath, Math.min(pieceBytes, toBytes - at), at);
    if (piece.equals(zeros.subarray(0, piece.length))) continue;
    const first = piece.findIndex((byte) => byte !== 0);
    const word = piece.subarray(first, first + wordBytes).toString('latin1');
    assert.fail(`old data at byte ${at + first}: ${JSON.stringify(word)}`);
  }
}

export function assertOwn(devicePath: string, owner: number, lengthBytes: number): void {
  const expected = patternOf(owner, pieceBytes);
  for (let at = 0; at < lengthBytes; at += pieceBytes) {
    const piece = read(devicePath, Math.min(pieceBytes, lengthBytes - at), at);
    assert.ok(piece.equals(expected.subarray(0, piece.length)), `owner ${owner} has lost what it wrote, at byte ${at}`);
  }
}
