import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Absence, type AbsenceSight, settleAbsences } from './absences.ts';

const since = '2026-01-01T00:00:00Z';
const sinceMs = Date.parse(since);
const nowMs = sinceMs + 600_000;
const now = '2026-01-01T00:10:00Z';

const nothing: AbsenceSight = {
  away: new Map(),
  there: new Set(),
  isCertain: () => false,
  isAllTold: () => false,
  isNobodys: () => false,
  nowMs,
};
const away = { away: new Map([['a', sinceMs]]) };
const there = { there: new Set(['a']) };

const table: [string, Absence | undefined, Partial<AbsenceSight>, Absence | undefined][] = [
  ['a node that is away is noted', undefined, away, { since }],
  ['what is noted stays as it is', { since: 'before' }, away, { since: 'before' }],
  ['a replica that sees neither leaves the note alone', { since }, {}, { since }],
  ['a note that stands is told', { since }, { ...away, isCertain: () => true }, { since, told: true }],
  ['one that is told stays so', { since, told: true }, { ...away, isCertain: () => true }, { since, told: true }],
  ['a link takes back what nobody was told', { since }, { ...there, isCertain: () => true }, undefined],
  ['a link ends what was told', { since, told: true }, there, { since, told: true, back: now }],
  ['the end stays until all are told', { since, told: true, back: now }, there, { since, told: true, back: now }],
  ['and then goes', { since, told: true, back: now }, { ...there, isAllTold: () => true }, undefined],
  [
    'who has no link does not say that all are told',
    { since, back: now },
    { isAllTold: () => true },
    { since, back: now },
  ],
  ['the end is no news for ever', { since: 'x', told: true, back: '2025-12-31T23:09:00Z' }, {}, undefined],
  ['away again is another absence', { since: 'x', told: true, back: now }, away, { since }],
  ['a node of nobody is not noted', undefined, { ...away, isNobodys: () => true }, undefined],
  ['nor stays noted', { since, told: true }, { ...away, isNobodys: () => true }, undefined],
];

for (const [what, before, sight, after] of table) {
  test(what, () => {
    const notes = new Map(before === undefined ? [] : [['a', before]]);
    const hasChanged = settleAbsences(notes, { ...nothing, ...sight });
    assert.deepEqual(notes.get('a'), after);
    assert.equal(hasChanged, JSON.stringify(before) !== JSON.stringify(after));
    // A second look finds nothing to do, except to report the end.
    if (after?.back === undefined) assert.equal(settleAbsences(notes, { ...nothing, ...sight }), false);
  });
}

test('more nodes than a Secret can hold are not noted', () => {
  const notes = new Map<string, Absence>();
  const many = new Map(Array.from({ length: 5_000 }, (_, index) => [`node-${index}`, sinceMs]));
  settleAbsences(notes, { ...nothing, away: many });
  assert.equal(notes.size, 500);
});
