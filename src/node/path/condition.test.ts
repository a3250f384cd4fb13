import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filesystemIn } from './condition.ts';

test('a freeze leaves no trace where nothing is written to the log', () => {
  const hides = (...superOptions: string[]) => filesystemIn({ fsType: 'ext4', superOptions }).hidesFreeze;
  assert.equal(hides('rw', 'norecovery'), true);
  assert.equal(hides('ro'), true);
  assert.equal(hides('rw', 'emergency_ro'), true);
  assert.equal(hides('rw', 'errors=remount-ro'), false);
});
