import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { countGone, forgettable, type Gone, type GoneSight, longestStepMs, type Seen, seenNow } from './gone.ts';

const gone: Gone = { id: 'a', seconds: 100, asked: 100 };
const minute = 60_000;
const sight: GoneSight = {
  isGone: () => true,
  asked: new Set(),
  seen: new Map([['n', { gone, sinceMs: 0 }]]),
  nowMs: minute,
  newId: () => 'new',
};
const asked = new Set(['n']);

const table: [string, Gone | undefined, Partial<GoneSight>, Gone | undefined][] = [
  ['time that a note stands is counted', gone, {}, { ...gone, seconds: 160 }],
  ['that a deletion waits is noted', gone, { asked }, { ...gone, seconds: 160, asked: 160 }],
  ['what this replica has not seen before is not counted', gone, { seen: new Map() }, gone],
  ['nor is it when another one has counted', { ...gone, seconds: 130 }, {}, { ...gone, seconds: 130 }],
  ['but that a deletion waits is', { ...gone, seconds: 130 }, { asked }, { ...gone, seconds: 130, asked: 130 }],
  ['nor is it of an earlier time that the node was gone', { ...gone, id: 'b' }, {}, { ...gone, id: 'b' }],
  ['a long pause counts for little', gone, { nowMs: 999 * minute }, { ...gone, seconds: 100 + longestStepMs / 1000 }],
  ['a clock that goes back counts for nothing', gone, { nowMs: -minute }, gone],
  ['a node that is back is counted no more', gone, { isGone: () => false }, undefined],
  ['one that cannot be looked up is left alone', gone, { isGone: () => undefined }, gone],
  ['one that nobody has waited for in a day is forgotten', { ...gone, seconds: 86_501 }, {}, undefined],
  ['a node that a deletion waits for is counted', undefined, { asked }, { id: 'new', seconds: 0, asked: 0 }],
  ['not if it is there', undefined, { asked, isGone: () => false }, undefined],
  ['nor if nobody knows', undefined, { asked, isGone: () => undefined }, undefined],
  ['nor if nobody asks', undefined, {}, undefined],
];

for (const [what, before, partial, after] of table) {
  test(what, () => {
    const notes = new Map(before === undefined ? [] : [['n', before]]);
    countGone(notes, { ...sight, ...partial });
    assert.deepEqual(notes.get('n'), after);
  });
}

test('a note is seen since it stands as it is', () => {
  const before = new Map<string, Seen>([['n', { gone, sinceMs: 5 }]]);
  assert.deepEqual(seenNow(new Map([['n', gone]]), before, 9), before);
  for (const other of [
    { ...gone, seconds: 101 },
    { ...gone, id: 'b' },
  ]) {
    assert.equal(seenNow(new Map([['n', other]]), before, 9).get('n')?.sinceMs, 9);
  }
});

const record: RecordedVolume = {
  name: 'pvc-1',
  handle: 'vol-1',
  node: 'n',
  claim: undefined,
  phase: 'Released',
  reclaimPolicy: 'Delete',
  className: 'c',
};

const volumes: [string, readonly Partial<RecordedVolume>[], boolean][] = [
  ['what is released and to be deleted', [{}], true],
  ['and recorded twice so', [{}, { name: 'pvc-2' }], true],
  ['what is bound waits', [{ phase: 'Bound' }], false],
  ['and what was never bound', [{ phase: 'Available' }], false],
  ['what somebody keeps waits', [{ reclaimPolicy: 'Retain' }], false],
  ['what is bound by another record waits', [{}, { phase: 'Bound' }], false],
  ['what is on two nodes waits', [{}, { node: 'm' }], false],
  ['what is on none waits', [{ node: undefined }], false],
  ['what has no class waits', [{ className: '' }], false],
  ['what has two waits', [{}, { className: 'd' }], false],
  ['what nothing records waits', [], false],
];

for (const [what, parts, isForgettable] of volumes) {
  test(`forgotten by class: ${what}`, () => {
    const found = forgettable(parts.map((part) => ({ ...record, ...part })));
    assert.deepEqual(found, isForgettable ? { node: 'n', className: 'c' } : undefined);
  });
}
