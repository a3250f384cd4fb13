import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Unavailable } from '../../volume/errors.ts';
import type { RecordedVolume } from './persistent-volumes.ts';
import { VolumeRecords } from './volume-records.ts';

function volume(handle: string, name = 'pvc'): RecordedVolume {
  const facts = { node: 'n', claim: undefined, phase: 'Released', reclaimPolicy: 'Delete', className: 'c' };
  return { ...facts, name, handle };
}

test('volumes that many ask for at a time are listed once for all, and never before one asked', async () => {
  let recorded = [volume('one'), volume('two'), volume('two', 'other')];
  let lists = 0;
  let begun = Promise.withResolvers<void>();
  let going = Promise.withResolvers<void>();
  const records = new VolumeRecords(async function* () {
    lists++;
    const seen = recorded;
    begun.resolve();
    await going.promise;
    yield* seen;
  });
  const first = [records.of('one'), records.of('two'), records.of('new')];
  await begun.promise;
  // It is recorded while a list is made that does not have it.
  recorded = [...recorded, volume('new')];
  const later = Array.from({ length: 1_000 }, () => records.of('new'));
  going.resolve();
  assert.deepEqual(
    (await Promise.all(first)).map((found) => found.map(({ name }) => name)),
    [['pvc'], ['pvc', 'other'], []],
  );
  assert.deepEqual(new Set((await Promise.all(later)).map(({ length }) => length)), new Set([1]));
  assert.equal(lists, 2);

  // A failed list fails only for the callers that waited for it.
  begun = Promise.withResolvers<void>();
  going = Promise.withResolvers<void>();
  const failed = records.of('one');
  await begun.promise;
  const next = records.of('one');
  going.reject(new Unavailable('not now'));
  going = Promise.withResolvers<void>();
  going.resolve();
  await assert.rejects(failed, /not now/);
  assert.equal((await next).length, 1);
});

test('a list is kept for half a minute, for those who need no newer one', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let lists = 0;
  const records = new VolumeRecords(async function* () {
    lists++;
    yield volume('one', `list ${lists}`);
  });
  const listOf = async (found: Promise<readonly RecordedVolume[]>) => (await found)[0]?.name;
  assert.equal(await listOf(records.lately('one')), 'list 1');
  assert.equal(await listOf(records.lately('one')), 'list 1');
  assert.equal(await listOf(records.of('one')), 'list 2');
  t.mock.timers.tick(15_000);
  assert.equal(await listOf(records.lately('one')), 'list 2');
  assert.deepEqual(await records.lately('two'), []);
  t.mock.timers.tick(15_000);
  assert.equal(await listOf(records.lately('one')), 'list 3');
});
