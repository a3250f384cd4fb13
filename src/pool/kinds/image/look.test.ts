import assert from 'node:assert/strict';
import { test } from 'node:test';
import { erasureFindings } from './look.ts';

test('EN04: on btrfs it is told that what is deleted of encrypted volumes can still be read', () => {
  const encryption = { type: 'luks2', headerBytes: 16 << 20, keyId: 'key-a' } as const;
  const [finding] = erasureFindings('btrfs', [{}, { encryption }]);
  assert.equal(finding?.status, 'warn');
  assert.deepEqual(erasureFindings('btrfs', [{}]), []);
  assert.deepEqual(erasureFindings('xfs', [{ encryption }]), []);
  assert.deepEqual(erasureFindings(undefined, [{ encryption }]), []);
});
