import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { healthOf, legTroubleOf, syncOf } from './health.ts';

const mirror = (attributes: string, syncPercent = '100.00') => ({ layout: 'raid1', attributes, syncPercent }) as const;

describe('the health of a logical volume', () => {
  test('a mirror goes on with one leg, and says so; a linear one has lost something', () => {
    assert.match(healthOf(mirror('rwi-aor-p-')) ?? '', /only once/);
    assert.match(healthOf(mirror('rwi-aor-r-')) ?? '', /out of step/);
    assert.equal(healthOf(mirror('rwi-aor---')), undefined);
    const linear = { layout: 'linear', attributes: '-wi-ao--p-', syncPercent: '' } as const;
    assert.match(healthOf(linear) ?? '', /not there/);
    assert.equal(legTroubleOf(linear), undefined);
  });

  test('L07: no message has more than 128 bytes', () => {
    for (const attributes of ['rwi-aor-p-', 'rwi-aor-r-', 'rwi-aor-X-', 'rwi-sor---', '-wi-ao--p-']) {
      for (const layout of ['linear', 'raid1'] as const) {
        const message = healthOf({ layout, attributes, syncPercent: '' }) ?? '';
        assert.ok(Buffer.byteLength(message) <= 128, message);
      }
    }
  });

  test('how far a mirror is that is being brought in step, as long as LVM knows', () => {
    assert.match(syncOf(mirror('rwi-aor---', '12.54')) ?? '', /12.54 %/);
    assert.equal(syncOf(mirror('rwi-aor---')), undefined);
    assert.equal(syncOf(mirror('rwi---r---', '')), undefined);
  });
});
