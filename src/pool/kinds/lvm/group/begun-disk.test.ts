import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isBegun, newPvUuid } from './begun-disk.ts';

const mebibyte = 1 << 20;
const blank = Buffer.alloc(mebibyte);
const pvUuid = newPvUuid();
const begun = { pvUuid, volumeGroup: 'holdfast-fast', mayHaveVolumes: false };
const magic = ' LVM2 x[5A%r0N*>';

interface Written {
  readonly uuid?: string;
  readonly hasHeader?: boolean;
  /** Where its text is, from the header on, and what it is. */
  readonly text?: { readonly at: bigint; readonly words: string };
}

/** The beginning of a disk as LVM writes it. */
function front({ hasHeader = false, text, uuid }: Written): Buffer {
  const bytes = Buffer.alloc(mebibyte);
  if (uuid !== undefined) {
    bytes.write('LABELONE', 512);
    bytes.write(uuid.replaceAll('-', ''), 544);
  }
  if (hasHeader) {
    bytes.writeUInt32LE(0xdeadbeef, 4096);
    bytes.write(magic, 4100);
  }
  if (text !== undefined) {
    bytes.writeBigUInt64LE(text.at, 4136);
    bytes.writeBigUInt64LE(1000n, 4144);
    if (Number(text.at) < mebibyte) bytes.write(text.words, 4096 + Number(text.at));
  }
  return bytes;
}

const isOurs = (written: Written, tail = blank) => isBegun(front(written), tail, begun);

describe('what was begun on a disk that was blank', () => {
  test('a UUID has the form of LVM', () => {
    assert.match(pvUuid, /^[0-9a-f]{6}(-[0-9a-f]{4}){5}-[0-9a-f]{6}$/);
    assert.notEqual(newPvUuid(), pvUuid);
  });

  test('is nothing, a part of a physical volume, or all of one', () => {
    assert.equal(isOurs({}), true);
    assert.equal(isOurs({ hasHeader: true }), true);
    assert.equal(isOurs({ uuid: pvUuid }), true);
    assert.equal(isOurs({ uuid: pvUuid, hasHeader: true }), true);
  });

  test('is no physical volume of another, and no data', () => {
    assert.equal(isOurs({ uuid: newPvUuid(), hasHeader: true }), false);
    for (const at of [0, 511, 512, 1024, 4095, 4100, 4608, mebibyte - 1]) {
      const bytes = front({});
      bytes.writeUInt8(1, at);
      assert.equal(isBegun(bytes, blank, begun), false, `byte ${at}`);
    }
    assert.equal(isOurs({ hasHeader: true }, Buffer.alloc(mebibyte, 1)), false);
  });

  test('may be in our group, whole or cut short, and in no other one', () => {
    const inGroup = (words: string, at = 512n) => isOurs({ uuid: pvUuid, hasHeader: true, text: { at, words } });
    assert.equal(inGroup('holdfast-fast {\nid = "x"'), true);
    assert.equal(inGroup('holdfast-fast {\nid = "x"', 2048n), true);
    assert.equal(inGroup(''), true, 'its header is on the disk without its text');
    assert.equal(inGroup('holdfast-fast {\nlogical_volumes {'), false, 'it has volumes');
    assert.equal(inGroup('vg0 {\nid = "x"'), false);
    assert.equal(inGroup('holdfast-faster {\nid = "x"'), false);
    assert.equal(inGroup('', 2n << 20n), false, 'it was changed often');
    const garbled = front({ uuid: pvUuid });
    garbled.write('something', 4096);
    assert.equal(isBegun(garbled, blank, begun), false);
  });
});
