import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Candidate, chooseFree } from './choose.ts';

const free: Candidate = { path: '/dev/sdb', identity: 'wwid 1', reasons: [], mayBeOwn: undefined, rivals: [] };
const other: Candidate = { ...free, path: '/dev/sdc', identity: 'wwid 2' };
const used: Candidate = { ...other, reasons: ['it is mounted at /'] };
const choose = (...candidates: readonly Candidate[]) => chooseFree('fast', 'bus nvme', candidates);

describe('the disk for a pool with match', () => {
  test('is the only one that is free', () => {
    assert.deepEqual(choose(free), { path: '/dev/sdb', identity: 'wwid 1' });
    assert.deepEqual(choose(used, free), { path: '/dev/sdb', identity: 'wwid 1' });
    assert.deepEqual(choose(free, { ...used, rivals: ['big'] }), { path: '/dev/sdb', identity: 'wwid 1' });
  });

  for (const [what, candidates, reason] of [
    ['there is none', [], /pool fast: no disk of this node matches \(bus nvme\)/],
    ['none is free', [used], /no disk that matches is free: \/dev\/sdc: it is mounted at \/\. Nothing was changed/],
    ['two are free', [free, other], /\/dev\/sdb and \/dev\/sdc match and are free, and the pool has one disk/],
    [
      'another section matches it',
      [{ ...free, rivals: ['big'] }],
      /pools fast and big both match it, so neither takes it/,
    ],
    ['nothing names it permanently', [{ ...free, identity: undefined }], /it has no serial number/],
    [
      'another one may be the disk that the pool had',
      [free, { ...other, reasons: ['it holds a filesystem (xfs)'], mayBeOwn: 'xfs' }],
      /\/dev\/sdc matches and holds xfs: it may be the disk that this pool had/,
    ],
  ] satisfies [string, Candidate[], RegExp][]) {
    test(`is none if ${what}`, () => {
      assert.throws(() => choose(...candidates), { name: 'FailedPrecondition', message: reason });
    });
  }
});
