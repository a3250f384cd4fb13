import type { Duplex } from 'node:stream';
import { serializeRecord } from '../../volume/record.ts';
import type { Reading } from '../source.ts';
import { frameHead, frameTypes, jsonFrame, pieceFrame } from './wire.ts';

/** Sends what a source reads. @param sent after each piece */
export async function sendPieces(socket: Duplex, reading: Reading, sent: () => void): Promise<void> {
  const { endBytes, pieces, record, totalBytes } = reading;
  const head = { record: serializeRecord(record), endBytes: endBytes.toString(), totalBytes: totalBytes.toString() };
  await send(socket, jsonFrame(frameTypes.head, head));
  for await (const piece of pieces) {
    // Each alone: Node copies those that wait for each other once more.
    for (const part of pieceFrame(piece)) await send(socket, part);
    piece.data?.free();
    sent();
  }
  await send(socket, frameHead(frameTypes.end, 0n, 0));
  socket.end();
}

/** Waits until the kernel has the bytes, which is slowly if the target reads slowly. */
function send(socket: Duplex, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}
