import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { decodeLoopInfo, encodeLoopConfig, loopInfoBytes, maximumLabelBytes, nameBackingFile } from './loop-layout.ts';

describe('the structures of loop devices', () => {
  test('have the sizes and places of linux/loop.h', () => {
    const flags = { readonly: true, autoclear: true, directIo: true };
    const config = nameBackingFile(encodeLoopConfig({ blockSizeBytes: 4096, label: 'vol-é', ...flags }), 0x01020304);
    assert.equal(config.length, 304);
    assert.equal(config.readUInt32LE(0), 0x01020304);
    assert.equal(config.readUInt32LE(4), 4096);
    assert.equal(config.readUInt32LE(8 + 52), 1 | 4 | 16);
    assert.equal(config.toString('utf8', 8 + 56, 8 + 56 + 7), 'vol-é\0');
  });

  test('give back what was put in', () => {
    const label = fc
      .string({ unit: 'grapheme', maxLength: 20 })
      .filter((text) => Buffer.byteLength(text) <= maximumLabelBytes);
    fc.assert(
      fc.property(label, fc.boolean(), fc.boolean(), fc.boolean(), (text, readonly, autoclear, directIo) => {
        const expected = { label: text.replace(/\0.*/s, ''), readonly, autoclear, directIo };
        const config = encodeLoopConfig({ blockSizeBytes: 512, ...expected });
        const info = decodeLoopInfo(config.subarray(8, 8 + loopInfoBytes));
        assert.deepEqual(info, { ...expected, backingDevice: { major: 0, minor: 0 }, backingInode: 0n });
      }),
    );
  });

  test('take a label of 63 bytes and none of 64, counted in UTF-8', () => {
    const config = { blockSizeBytes: 512, readonly: false, autoclear: false, directIo: false };
    const longest = 'x'.repeat(63);
    assert.equal(decodeLoopInfo(encodeLoopConfig({ ...config, label: longest }).subarray(8)).label, longest);
    assert.throws(() => encodeLoopConfig({ ...config, label: 'é'.repeat(32) }), RangeError);
  });
});
