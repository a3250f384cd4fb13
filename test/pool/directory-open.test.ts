import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { test } from 'node:test';
import { openTestDirectories } from '../support/directory-pool.ts';
import { Scratch } from '../support/scratch.ts';

test('a pool that requires quota is refused before it is made: its disk may come later, and be new', async () => {
  using scratch = new Scratch('quota');
  await assert.rejects(openTestDirectories(scratch, { quota: 'required' }), /enforces no project quota/);
  assert.deepEqual(readdirSync(scratch.join('pool')), []);
  assert.ok(!existsSync(scratch.join('data', 'pools', 'test.id')));
  await (await openTestDirectories(scratch)).close();
});

test('of one that was there before, it is told that its disk may not be mounted', async () => {
  using scratch = new Scratch('quota');
  await (await openTestDirectories(scratch)).close();
  renameSync(scratch.join('pool'), scratch.join('unmounted'));
  mkdirSync(scratch.join('pool'));
  await assert.rejects(openTestDirectories(scratch, { quota: 'required' }), /Is its disk mounted/);
});
