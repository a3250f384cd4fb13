import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { linearTable, messageRequest, requestFor, tableRequest, textAt } from './dm-request.ts';

describe('requests to device-mapper', () => {
  test('a table of one line: a part of a device, in sectors', () => {
    const table = linearTable({ major: 8, minor: 16 }, { offsetBytes: 2n << 20n, lengthBytes: 64n << 20n });
    assert.equal(table.readBigUInt64LE(0), 0n, 'from the beginning of the new device');
    assert.equal(table.readBigUInt64LE(8), 131_072n);
    assert.equal(table.readUInt32LE(20), table.length);
    assert.equal(table.length % 8, 0);
    assert.equal(textAt(table, 24, 16), 'linear');
    assert.equal(textAt(table, 40, table.length - 40), '8:16 4096');
    const request = tableRequest('name', table);
    assert.deepEqual([request.readUInt32LE(12), request.readUInt32LE(16)], [request.length, 312]);
    assert.equal(textAt(request, 48, 128), 'name');
  });

  test('a message to the first target, which ends with a zero', () => {
    const request = messageRequest({ major: 253, minor: 7 }, 'reserve_metadata_snap');
    assert.deepEqual([request.readUInt32LE(12), request.readUInt32LE(16)], [request.length, 312]);
    assert.equal(request.readBigUInt64LE(312), 0n, 'of the sector 0');
    assert.equal(textAt(request, 320, request.length - 320), 'reserve_metadata_snap');
    assert.equal(request.at(-1), 0);
  });

  test('EN01: a device is named by its UUID alone, if that is what is asked for', () => {
    const request = requestFor({ uuid: 'CRYPT-LUKS2-0123-holdfast-a' });
    assert.equal(textAt(request, 176, 129), 'CRYPT-LUKS2-0123-holdfast-a');
    assert.equal(textAt(request, 48, 128), '');
    assert.equal(request.readBigUInt64LE(40), 0n);
  });

  test('what is no whole sectors, or no name, is refused', () => {
    const over = { major: 8, minor: 0 };
    for (const part of [
      { offsetBytes: 1n, lengthBytes: 512n },
      { offsetBytes: 0n, lengthBytes: 511n },
      { offsetBytes: 0n, lengthBytes: 0n },
    ]) {
      assert.throws(() => linearTable(over, part), RangeError);
    }
    assert.throws(() => requestFor('x'.repeat(128)), RangeError);
    assert.throws(() => requestFor({ uuid: '' }), RangeError);
    assert.throws(() => requestFor({ uuid: 'x'.repeat(129) }), RangeError);
  });
});
