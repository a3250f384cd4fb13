import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { encodeSlot, readSlots, slotBytes, slotCount } from './slots.ts';

/** A label whose slots hold these. */
function label(...slots: readonly (Buffer | undefined)[]): Buffer {
  const bytes = Buffer.alloc(slotBytes * slotCount);
  for (const [index, slot] of slots.entries()) slot?.copy(bytes, index * slotBytes);
  return bytes;
}

function textIn(bytes: Buffer): string | undefined {
  const found = readSlots(bytes);
  return found.kind === 'slot' ? found.slot.text : undefined;
}

const texts = fc.string({ unit: 'binary', maxLength: 4000 });

describe('the slots of a label', () => {
  test('hold texts, and the newest counts, in whichever place', () => {
    fc.assert(
      fc.property(texts, texts, fc.bigInt({ min: 1n, max: 1n << 60n }), (older, newer, sequence) => {
        const [first, second] = [encodeSlot(sequence, older), encodeSlot(sequence + 1n, newer)];
        assert.equal(textIn(label(first, second)), newer);
        assert.equal(textIn(label(second, first)), newer);
        assert.equal(textIn(label(undefined, first)), older);
      }),
    );
    const mirrored = label(encodeSlot(2n, 'same'), encodeSlot(3n, 'same'));
    const slot = { index: 1, sequence: 3n, text: 'same' };
    assert.deepEqual(readSlots(mirrored), { kind: 'slot', slot, isMirrored: true });
    assert.deepEqual(readSlots(label(undefined, encodeSlot(3n, 'same'))), { kind: 'slot', slot, isMirrored: false });
    assert.deepEqual(readSlots(label()), { kind: 'none' });
    assert.throws(() => encodeSlot(1n, 'x'.repeat(slotBytes)), RangeError);
  });

  test('a write that is torn at any byte leaves the text before it, or the new one', () => {
    const [kept, before, after] = [encodeSlot(6n, 'six'), encodeSlot(5n, 'five, as it was'), encodeSlot(7n, 'seven')];
    // Bytes behind a text do not count.
    const isWhole = (slot: Buffer) => slot.subarray(0, 64 + 5).equals(after.subarray(0, 64 + 5));
    for (let torn = 1; torn < after.length; torn++) {
      for (const [first, last] of [
        [after, before],
        [before, after],
      ] as const) {
        const mixed = Buffer.concat([first.subarray(0, torn), last.subarray(torn)]);
        const text = textIn(label(mixed, kept));
        assert.equal(text, isWhole(mixed) ? 'seven' : 'six', `torn at ${torn}`);
      }
    }
  });

  test('a slot in which a bit has changed does not count', () => {
    const text = 'what it says';
    const usedBits = (64 + text.length) * 8;
    fc.assert(
      fc.property(fc.nat({ max: usedBits - 1 }), (bit) => {
        const damaged = encodeSlot(9n, text);
        damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
        assert.equal(textIn(label(damaged, encodeSlot(8n, 'before'))), 'before');
      }),
      { numRuns: 2000 },
    );
  });

  test('one that a newer driver wrote is not passed over', () => {
    const slot = encodeSlot(3n, 'unknown words');
    slot.writeUInt32LE(3, 16);
    const digest = createHash('sha256')
      .update(slot.subarray(0, 32))
      .update(slot.subarray(64, 64 + 13))
      .digest();
    digest.copy(slot, 32);
    assert.deepEqual(readSlots(label(slot, encodeSlot(2n, 'before'))), { kind: 'newer' });
    assert.deepEqual(readSlots(label(encodeSlot(4n, 'after'), slot)), { kind: 'newer' });
  });
});
