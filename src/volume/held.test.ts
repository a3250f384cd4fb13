import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Held } from './held.ts';

const tracked = (names: string[], name: string): AsyncDisposable => ({
  async [Symbol.asyncDispose]() {
    names.push(name);
  },
});

test('what is held is let go in the opposite order, once', async () => {
  const names: string[] = [];
  const held = new Held();
  held.use(tracked(names, 'first'));
  held.defer(async () => {
    names.push('second');
  });
  await held[Symbol.asyncDispose]();
  await held[Symbol.asyncDispose]();
  assert.deepEqual(names, ['second', 'first']);
});

test('all of it is let go, whatever fails', async () => {
  const names: string[] = [];
  const held = new Held();
  held.use(tracked(names, 'first'));
  held.defer(() => Promise.reject(new Error('stuck')));
  await assert.rejects(held[Symbol.asyncDispose](), /stuck/);
  assert.deepEqual(names, ['first']);
});

test('what was given up is not let go', async () => {
  const names: string[] = [];
  const held = new Held();
  held.use(tracked(names, 'first'));
  held.giveUp();
  await held[Symbol.asyncDispose]();
  assert.deepEqual(names, []);
});
