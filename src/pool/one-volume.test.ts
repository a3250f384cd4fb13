import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { storedBytes } from '../volume/encryption.ts';
import { diskTraits } from './kinds/disk/traits.ts';
import { linearTraits } from './kinds/lvm/traits.ts';
import { encryptionIn, sizeMultiple } from './pool.ts';

const mebibyte = 1n << 20n;

describe('sizes in a pool that is one volume', () => {
  const traits = diskTraits(508n * mebibyte);

  test('all of it, or nothing', () => {
    assert.equal(sizeMultiple(traits, undefined), 508n * mebibyte);
  });

  test('encrypted, what the header leaves: together they are all of it', () => {
    const sizeBytes = sizeMultiple(traits, 'luks2') ?? 0n;
    assert.equal(sizeBytes, 492n * mebibyte);
    assert.equal(storedBytes({ sizeBytes, encryption: encryptionIn(traits, 'luks2') }), 508n * mebibyte);
  });

  test('elsewhere the header is added, in pieces of the pool', () => {
    const pieces = linearTraits(32n * mebibyte);
    assert.equal(sizeMultiple(pieces, 'luks2'), 32n * mebibyte);
    assert.equal(encryptionIn(pieces, 'luks2').headerBytes, Number(32n * mebibyte));
  });
});
