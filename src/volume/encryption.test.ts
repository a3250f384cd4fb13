import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newEncryption } from './encryption.ts';

const mebibyte = 1n << 20n;

test('the header takes whole pieces of what the pool gives, and 16 MiB at least', () => {
  const headerOf = (multipleBytes?: bigint) => BigInt(newEncryption('luks2', multipleBytes).headerBytes);
  assert.equal(headerOf(), 16n * mebibyte);
  assert.equal(headerOf(4n * mebibyte), 16n * mebibyte);
  assert.equal(headerOf(64n * mebibyte), 64n * mebibyte);
});
