import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Lane } from '../../src/kernel/lane.ts';
import { Freezer } from '../../src/pool/image/freezer.ts';
import { volumeIdFor } from '../../src/volume/id.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

describe('the watchdog of a freeze', () => {
  test('K05: work on volumes that nobody has mounted may take as long as it likes', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const freezer = new Freezer({ lane: new Lane('test', 4), log: quiet, name: 'test' });
    let finish = () => {};
    const work = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let hasBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      hasBegun = resolve;
    });
    const copying = freezer.whileFrozen(
      [{ volumeId: volumeIdFor('node', 'pool', 'a'), devices: [], hasFilesystem: true }],
      async () => {
        hasBegun();
        await work;
        return 'copied';
      },
    );
    await begun;
    t.mock.timers.tick(3_600_000);
    finish();
    assert.deepEqual(await copying, { result: 'copied', frozenMs: 0 });
  });
});
