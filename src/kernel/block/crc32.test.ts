import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allOnes, crc32, crc32c } from './crc32.ts';

test('the checksum of Castagnoli (RFC 3720, B.4)', () => {
  const checksum = (data: Buffer) => ~crc32c(allOnes, data) >>> 0;
  assert.equal(checksum(Buffer.from('123456789')), 0xe3069283);
  assert.equal(checksum(Buffer.alloc(32)), 0x8a9136aa);
  assert.equal(checksum(Buffer.alloc(32, 0xff)), 0x62a8ab43);
});

test('the checksum of GPT', () => {
  assert.equal(crc32(Buffer.from('123456789')), 0xcbf43926);
  assert.equal(crc32(Buffer.alloc(0)), 0);
});
