import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseThinBytes, parseThinNumber, parseThinPool, type ThinPoolMode } from './thin-status.ts';

const pool = (text: string) => parseThinPool({ type: 'thin-pool', text }, 65_536n);

describe('what thin pools say of themselves', () => {
  test('how full data and metadata are', () => {
    assert.deepEqual(pool('2 215/2048 77/6400 - rw discard_passdown queue_if_no_space - 512'), {
      mode: 'rw',
      data: { usedBytes: 77n * 65_536n, totalBytes: 6400n * 65_536n },
      metadata: { usedBytes: 215n * 4096n, totalBytes: 2048n * 4096n },
      needsCheck: false,
    });
  });

  test('whether they can be written to', () => {
    const said: Readonly<Record<string, readonly [ThinPoolMode, boolean]>> = {
      '1 9/10 8/8 - out_of_data_space discard_passdown queue_if_no_space - 1': ['out_of_data_space', false],
      '1 10/10 7/8 - ro discard_passdown error_if_no_space needs_check 1': ['ro', true],
      '1 10/10 7/8 42 ro no_discard_passdown queue_if_no_space - 1': ['ro', false],
      Fail: ['fail', true],
      Error: ['fail', true],
    };
    for (const [text, [mode, needsCheck]] of Object.entries(said)) {
      const status = pool(text);
      assert.deepEqual([status?.mode, status?.needsCheck], [mode, needsCheck], text);
    }
  });

  test('whether they have a metadata snapshot, and where', () => {
    assert.equal(pool('1 9/10 7/8 42 rw no_discard_passdown queue_if_no_space - 1')?.snapshotBlock, 42n);
    assert.equal(pool('1 9/10 7/8 - rw no_discard_passdown queue_if_no_space - 1')?.snapshotBlock, undefined);
  });

  test('of anything else nothing is read', () => {
    for (const text of ['', '1 2 3', '1 a/b 1/2 - rw', '1 1/2 3/4 - what']) assert.equal(pool(text), undefined, text);
    assert.equal(parseThinPool({ type: 'linear', text: '' }, 65_536n), undefined);
  });
});

test('what a thin volume has of its pool', () => {
  assert.equal(parseThinBytes({ type: 'thin', text: '9856 131071' }), 9856n * 512n);
  assert.equal(parseThinBytes({ type: 'thin', text: '0 -' }), 0n);
  for (const text of ['Fail', '-', 'Error', '']) assert.equal(parseThinBytes({ type: 'thin', text }), undefined, text);
  assert.equal(parseThinBytes({ type: 'linear', text: '8 8' }), undefined);
});

test('which volume of which thin pool a device is', () => {
  const number = (text: string, type = 'thin') => parseThinNumber({ type, text });
  assert.deepEqual(number('253:2 17'), { poolDevice: { major: 253, minor: 2 }, thinId: 17n });
  // With an origin outside of the pool; and a device that is no thin volume.
  for (const text of ['253:2 17 253:9', '253:2', '/dev/dm-2 17', '']) assert.equal(number(text), undefined, text);
  assert.equal(number('253:2 17', 'linear'), undefined);
});
