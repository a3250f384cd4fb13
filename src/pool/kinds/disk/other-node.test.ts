import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { isFresh, refuseRunElsewhere, stampText } from './other-node.ts';

const minuteMs = 60_000;

test('DK12: a stamp is fresh for some minutes, also by a clock that is behind', () => {
  const stamp = stampText(7, new Date(0));
  assert.deepEqual(
    [-minuteMs, 0, 9 * minuteMs, 11 * minuteMs].map((ms) => isFresh(stamp, ms)),
    [true, true, true, false],
  );
  // A driver that has let the pool go, or never had it; anything else.
  for (const text of ['', '\0'.repeat(4096), 'holdfast health 7 yesterday\n']) assert.equal(isFresh(text, 0), false);
});

test('DK12: a disk of which another node moves the stamp is not opened; one whose stamp stands still is', async () => {
  const now = new Date();
  let reads = 0;
  const place = (stamps: readonly string[]) => ({
    ...{ poolName: 'test', path: '/dev/sdx', pausesMs: [1, 1, 1] },
    async read() {
      return stamps[Math.min(reads++, stamps.length - 1)] ?? '';
    },
  });
  await refuseRunElsewhere(place([stampText(1, now)]));
  assert.equal(reads, 4);
  reads = 0;
  await assert.rejects(
    refuseRunElsewhere(place([stampText(1, now), stampText(1, now), stampText(2, now)])),
    (error) => error instanceof FailedPrecondition && /another node runs the pool of \/dev\/sdx/.test(error.message),
  );
  reads = 0;
  await refuseRunElsewhere(place(['']));
  assert.equal(reads, 1);
});
