import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTooOld, versionIn } from './version.ts';

test('lvm 11: an LVM that does not know what it is told is known by its version', () => {
  const text = '  LVM version:     2.03.11(2) (2021-01-08)\n  Library version: 1.02.175 (2021-01-08)\n';
  assert.equal(versionIn(text), '2.03.11');
  assert.equal(versionIn('sh: lvm: not found'), undefined);
  for (const old of ['2.03.11', '2.02.188', '1.9.99']) assert.equal(isTooOld(old), true, old);
  for (const enough of ['2.03.12', '2.03.16', '2.03.31', '2.04.00', '3.00.00']) assert.equal(isTooOld(enough), false);
});
