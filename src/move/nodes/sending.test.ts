import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { volumeIdFor } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Piece } from '../copy.ts';
import { sendPieces } from './sending.ts';
import { readingOut } from './wire.ts';

const lengthBytes = 4096;
const record: VolumeRecord = {
  ...{ id: volumeIdFor('node', 'pool', 'name'), name: 'name', sizeBytes: 1n << 20n, content: { type: 'block' } },
  ...{ accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin', parameters: {}, blockSizeBytes: 512 },
  createdAt: '2026-01-02T03:04:05.678Z',
};

test('a piece has its memory until it is sent, also while the target reads slowly', async () => {
  const events: string[] = [];
  const sent: Buffer[] = [];
  // A network that takes each write, and reads its memory later.
  const network = new Duplex({
    write(bytes: Buffer, _encoding, taken) {
      setImmediate(() => {
        sent.push(Buffer.from(bytes));
        taken();
      });
    },
    read() {},
  });
  const memory = Buffer.alloc(lengthBytes);
  async function* pieces(): AsyncGenerator<Piece, void, void> {
    for (let byte = 1; byte <= 5; byte++) {
      memory.fill(byte);
      const data = { bytes: memory, digest: Buffer.alloc(32, byte), free: () => void memory.fill(0) };
      yield { offsetBytes: BigInt(byte * lengthBytes), lengthBytes, data };
    }
  }
  const head = readingOut({ record, endBytes: 6n * 4096n, totalBytes: 5n * 4096n });
  await sendPieces(network, { head, pieces: pieces() }, () => void events.push('sent'));
  const bodies = sent.filter(({ length }) => length === lengthBytes);
  assert.deepEqual(
    bodies.map((body) => body.equals(Buffer.alloc(lengthBytes, body[0])) && body[0]),
    [1, 2, 3, 4, 5],
  );
  assert.equal(events.length, 5);
});
