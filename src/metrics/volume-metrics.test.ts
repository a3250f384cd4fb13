import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { VolumeUsage } from '../pool/pool.ts';
import { volumeIdFor } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { chooseShown } from './volume-metrics.ts';

const volume = fc
  .record({ name: fc.nat(1_000), usedBytes: fc.bigInt(0n, 3n) })
  .map(({ name, usedBytes }): VolumeUsage => {
    const record: VolumeRecord = {
      id: volumeIdFor('node', 'test', `${name}`),
      name: `${name}`,
      sizeBytes: 1n << 20n,
      content: { type: 'block' },
      accessModes: ['SINGLE_NODE_WRITER'],
      provisioning: 'thin',
      parameters: {},
      blockSizeBytes: 512,
      createdAt: '2026-01-01T00:00:00.000Z',
    };
    return { record, usedBytes, devices: 0 };
  });
const volumes = fc.uniqueArray(volume, { selector: ({ record }) => record.id, maxLength: 20 });

describe('chooseShown', () => {
  test('chooses the same volumes in whatever order they come, and loses none', () => {
    fc.assert(
      fc.property(volumes, fc.nat(20), (all, max) => {
        const { hidden, shown } = chooseShown(all, max);
        const reversed = chooseShown(all.toReversed(), max);
        assert.deepEqual(new Set(reversed.shown), new Set(shown));
        assert.deepEqual(new Set([...shown, ...hidden]), new Set(all));
        assert.equal(shown.length, Math.min(max, all.length));
      }),
    );
  });

  test('none that is hidden takes more than one that is shown', () => {
    fc.assert(
      fc.property(volumes, fc.nat(20), (all, max) => {
        const { hidden, shown } = chooseShown(all, max);
        assert.ok(hidden.every((out) => shown.every((one) => one.usedBytes >= out.usedBytes)));
      }),
    );
  });
});
