import type { Duplex } from 'node:stream';
import type { Piece } from '../copy.ts';
import { frameHead, frameTypes, jsonFrame, pieceFrame } from './wire.ts';

/** The pieces that a source reads, with the facts that come before them. */
export interface Sent {
  readonly head: object;
  readonly pieces: AsyncIterable<Piece>;
}

/** Called after each piece. */
export type Heard = () => void;

/** Sends what a source reads. */
export async function sendPieces(socket: Duplex, { head, pieces }: Sent, sent: Heard): Promise<void> {
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
