import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { btrfsChecksum } from './btrfs-checksum.ts';

/** Each byte its place modulo 251. What b2sum(1) and sha256sum(1) say of it; that btrfs agrees shows test/pool. */
const data = Buffer.from(Array.from({ length: 4064 }, (_, index) => index % 251));

describe('the checksums of btrfs', () => {
  const expected = [
    'a2d11b9b',
    '1c9067d970a0b1f6',
    'd272f5146d6471a0000466ab07cc2eb5d72a0df66535e1cffe70a7fc9e7d5565',
    '79ca6703daecde479bf11526cabedc72880acc72266ccf79c498c8c0a646a49f',
  ];
  for (const [type, checksum] of expected.entries()) {
    test(`type ${type} is as other programs have it`, () => {
      assert.equal(btrfsChecksum(type, data)?.toString('hex'), checksum);
    });
  }

  test('one that is not known is not guessed', () => {
    assert.equal(btrfsChecksum(4, data), undefined);
  });
});
