import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { WrittenUnits } from './written-units.ts';

const pieceBytes = 1n << 20n;
const blockBytes = 4096n;

test('each unit is counted once, however the writes of two pieces at a time alternate', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(4096n, 65_536n, 1n << 20n, 8n << 20n),
      fc.array(fc.boolean(), { minLength: 600, maxLength: 600 }),
      fc.integer({ min: 1, max: 9 }),
      (unitBytes, turns, every) => {
        const written = new WrittenUnits(unitBytes, 7n);
        const expected = new Set<bigint>();
        for (let pair = 0n; pair < 4n; pair++) {
          // Two pieces behind each other, each written in its order.
          const next = [0n, 0n];
          for (const turn of turns) {
            const which = turn ? 1 : 0;
            const offsetBytes = (pair * 2n + BigInt(which)) * pieceBytes + (next[which] ?? 0n);
            if ((next[which] ?? 0n) >= pieceBytes) continue;
            next[which] = (next[which] ?? 0n) + blockBytes * BigInt(every);
            written.add({ offsetBytes, lengthBytes: blockBytes });
            expected.add(offsetBytes / unitBytes);
          }
        }
        assert.equal(written.bytes, 7n + BigInt(expected.size) * unitBytes);
      },
    ),
    { numRuns: 30 },
  );
});

test('a range over several units counts all of them', () => {
  const written = new WrittenUnits(65_536n);
  written.add({ offsetBytes: 65_535n, lengthBytes: 65_538n });
  assert.equal(written.bytes, 3n * 65_536n);
});
