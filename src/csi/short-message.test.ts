import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortMessage } from './short-message.ts';

test('L07: a message is cut at 128 bytes, never inside a character', () => {
  assert.equal(shortMessage('a'.repeat(128)), 'a'.repeat(128));
  assert.equal(shortMessage('a'.repeat(129)), `${'a'.repeat(125)}…`);
  const cut = shortMessage('🗻'.repeat(33));
  assert.equal(cut, `${'🗻'.repeat(31)}…`);
  assert.ok(Buffer.byteLength(cut) <= 128);
});
