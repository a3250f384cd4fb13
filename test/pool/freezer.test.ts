import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Lane } from '../../src/kernel/lane.ts';
import { Freezer } from '../../src/pool/image/freezer.ts';
import { volumeIdFor } from '../../src/volume/id.ts';

describe('the watchdog of a freeze', () => {
  test('K05: work on volumes that nobody has mounted may take as long as it likes', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const freezer = new Freezer(new Lane('test', 4));
    let finish = () => {};
    const work = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let hasBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      hasBegun = resolve;
    });
    const copying = freezer.whileFrozen([{ volumeId: volumeIdFor('node', 'pool', 'a'), devices: [] }], async () => {
      hasBegun();
      await work;
      return 'copied';
    });
    await begun;
    t.mock.timers.tick(3_600_000);
    finish();
    assert.deepEqual(await copying, { result: 'copied', frozenMs: 0 });
  });
});
