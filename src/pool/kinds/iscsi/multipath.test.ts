import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { IscsiLun } from '../../../kernel/block/iscsi.ts';
import type { MultipathMap } from '../../../kernel/block/multipath.ts';
import { devicesAbove, devicesFor, foreignPathOf, hasPath, mapsLeft, mapsOver, ownMaps } from './multipath.ts';

const wwid = '36001405aabbccddeeff0011223344556';
const identity = `1 naa.${wwid.slice(1)}`;

function path(name: string, minor: number): IscsiLun {
  return { lun: '1', address: `${minor}:0:0:1`, name, devicePath: `/dev/${name}`, ...numbered(8, minor) };
}

function numbered(major: number, minor: number) {
  return { device: { major, minor }, sizeBytes: 320n << 20n };
}

const [a, b, c] = [path('sda', 0), path('sdb', 16), path('sdc', 32)];
const map = (...paths: IscsiLun[]): MultipathMap => {
  return { name: 'dm-0', devicePath: '/dev/dm-0', wwid, paths, ...numbered(253, 0) };
};
const over = (found: MultipathMap) => (name: string) =>
  found.paths.some((each) => each.name === name) ? found : undefined;
const none = () => undefined;

describe('the device of a unit', () => {
  test('is its only path', () => assert.deepEqual(devicesFor([a], none), [a]));

  test('is the map over its paths, also over one that is alone, or beside one that has not joined it', () => {
    const both = map(a, b);
    assert.deepEqual(devicesFor([a, b], over(both)), [both]);
    assert.deepEqual(devicesFor([a], over(map(a))), [map(a)]);
    assert.deepEqual(devicesFor([a, b], over(map(a))), [map(a)]);
  });

  test('is not clear with two paths and no map, or with two maps', () => {
    assert.equal(devicesFor([a, b], none).length, 2);
    const maps: Readonly<Record<string, MultipathMap>> = { sda: map(a), sdb: { ...map(b), name: 'dm-1' } };
    assert.equal(devicesFor([a, b], (name) => maps[name]).length, 2);
  });
});

describe('a map', () => {
  test('is used in the place of its paths by other programs, once', () => {
    const both = map(a, b);
    assert.deepEqual(devicesAbove([a, b, c], over(both)), [both, c]);
    assert.deepEqual(mapsOver([a, b, c], over(both)), [both]);
  });

  test('has a foreign path if one is not among those of the sessions of this driver', () => {
    assert.equal(foreignPathOf(map(a, b), [b, a]), undefined);
    assert.equal(foreignPathOf(map(a, c), [a, b]), 'sdc');
    assert.equal(foreignPathOf({}, [a]), undefined);
  });

  test('has its paths alone', () => {
    assert.deepEqual(
      [a, b, c].map((each) => hasPath([map(a), map(b)], each)),
      [true, true, false],
    );
  });

  test('goes with the paths of this driver if it has no others', () => {
    assert.deepEqual(ownMaps([a, b], over(map(a, b))), [map(a, b)]);
    assert.deepEqual(ownMaps([a, b], over(map(a, c))), []);
  });

  test('is left if it has no path any more, of a unit in the note', () => {
    const found = (lost: MultipathMap) => (name: string) => (name === wwid ? lost : undefined);
    assert.deepEqual(mapsLeft({ one: identity, other: '2 t10.LIO' }, undefined, found(map())), [map()]);
    assert.deepEqual(mapsLeft({ one: identity }, 'other', found(map())), []);
    assert.deepEqual(mapsLeft({ one: identity }, 'one', found(map(a))), []);
    assert.deepEqual(mapsLeft(undefined, 'one', found(map())), []);
  });
});
