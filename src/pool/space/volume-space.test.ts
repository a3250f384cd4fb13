import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { volumeIdFor } from '../../volume/id.ts';
import { VolumeSpace } from './volume-space.ts';

const mebibyte = 1n << 20n;
const id = volumeIdFor('node', 'pool', 'v');

/** A volume of 10 MiB, all of it written, of which a map was read. */
function written(): VolumeSpace {
  const space = new VolumeSpace();
  space.put({ id, sizeBytes: 10n * mebibyte }, 'anything');
  space.beginLook(id)(10n * mebibyte, true);
  space.beginMap(id)(0n);
  assert.equal(space.ownedBytes(id), 10n * mebibyte);
  return space;
}

describe('what a volume owns', () => {
  test('GC04: is nothing from the moment at which its blocks are to be shared, until a new map tells', () => {
    const space = written();
    {
      using _pin = space.pin(id);
      assert.equal(space.ownedBytes(id), 0n);
    }
    assert.equal(space.ownedBytes(id), 0n);
    space.beginMap(id)(4n * mebibyte);
    assert.equal(space.ownedBytes(id), 6n * mebibyte);
  });

  test('GC04: is not told by a map that was begun before its blocks were shared', () => {
    const space = written();
    space.outdateMaps();
    const tell = space.beginMap(id);
    {
      using _pin = space.pin(id);
    }
    tell(0n);
    assert.equal(space.ownedBytes(id), 0n);
  });
});

describe('what is held', () => {
  test('K02 GC04: counts against what was free at a moment at which it was held, as it may have been taken since', () => {
    const space = new VolumeSpace();
    const hold = space.hold(10n * mebibyte);
    const then = space.now();
    hold.took(4n * mebibyte);
    assert.equal(space.heldSince(then), 10n * mebibyte);
    hold[Symbol.dispose]();
    assert.equal(space.heldSince(then), 10n * mebibyte);
    assert.equal(space.heldSince(space.now()), 0n);
  });
});
