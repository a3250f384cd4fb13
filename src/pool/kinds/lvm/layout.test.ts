import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Disks, disksOfLegs, largestBytes, neededBytes, planOf } from './layout.ts';

const extentBytes = 4n << 20n;

function disksWith(...freeExtents: number[]): Disks {
  const physicalVolumes = freeExtents.map((extents, index) => ({
    ...{ uuid: `${index}`, path: `/dev/sd${index}`, device: { major: 8, minor: index } },
    ...{ sizeBytes: 1n << 40n, isMissing: false, isAllocatable: true, disks: [`sd${index}`] },
    freeBytes: BigInt(extents) * extentBytes,
  }));
  return { extentBytes, physicalVolumes };
}

const sizeOf = (extents: number) => BigInt(extents) * extentBytes;

describe('layouts of logical volumes', () => {
  test('stripes lie on as many disks as have room for their part', () => {
    assert.deepEqual(planOf('striped', sizeOf(9), disksWith(10, 10, 10))?.stripes, 3);
    assert.deepEqual(planOf('striped', sizeOf(9), disksWith(10, 2, 10)), {
      layout: 'striped',
      extents: 10n,
      stripes: 2,
      devicePaths: ['/dev/sd0', '/dev/sd2'],
    });
    assert.equal(planOf('striped', sizeOf(1), disksWith(10)), undefined);
    assert.equal(planOf('striped', sizeOf(9), disksWith(100, 4)), undefined);
  });

  test('the legs of a mirror lie on the two disks with the max room, with their metadata', () => {
    assert.deepEqual(planOf('raid1', sizeOf(9), disksWith(10, 3, 12))?.devicePaths, ['/dev/sd2', '/dev/sd0']);
    assert.equal(planOf('raid1', sizeOf(10), disksWith(10, 3, 12)), undefined);
    assert.equal(neededBytes('raid1', sizeOf(9), disksWith(10, 3, 12)), sizeOf(20));
    assert.equal(planOf('raid1', sizeOf(1), disksWith(10)), undefined);
  });

  test('lvm 7: the legs of a mirror lie on two disks, whatever partitions these have', () => {
    const { physicalVolumes } = disksWith(10, 8, 6);
    const on = (...names: readonly string[]): Disks => ({
      extentBytes,
      physicalVolumes: physicalVolumes.map((each, index) => ({ ...each, disks: [names[index] ?? ''] })),
    });
    assert.deepEqual(planOf('raid1', sizeOf(4), on('sda', 'sda', 'sdb'))?.devicePaths, ['/dev/sd0', '/dev/sd2']);
    assert.deepEqual(planOf('raid1', sizeOf(4), on('sda', 'sdb', 'sdb'))?.devicePaths, ['/dev/sd0', '/dev/sd1']);
    assert.equal(planOf('raid1', sizeOf(7), on('sda', 'sda', 'sdb')), undefined);
    assert.equal(planOf('raid1', sizeOf(1), on('sda', 'sda', 'sda')), undefined);
    assert.equal(largestBytes('raid1', sizeOf(100), on('sda', 'sda', 'sda')), 0n);
    assert.equal(largestBytes('raid1', sizeOf(100), on('sda', 'sda', 'sdb')), sizeOf(5));
  });

  test('GC04: what is told to fit does, and nothing larger', () => {
    const someDisks = fc.array(fc.nat(60), { maxLength: 5 });
    fc.assert(
      fc.property(someDisks, fc.nat(200), fc.constantFrom('striped', 'raid1'), (free, available, layout) => {
        const disks = disksWith(...free);
        const fits = (extents: number) =>
          extents === 0 ||
          (planOf(layout, sizeOf(extents), disks) !== undefined &&
            neededBytes(layout, sizeOf(extents), disks) <= sizeOf(available));
        const max = Number(largestBytes(layout, sizeOf(available), disks) / extentBytes);
        assert.ok(fits(max), `${max} extents do not fit`);
        for (let extents = max + 1; extents < max + 20; extents++) assert.ok(!fits(extents), `${extents} extents do`);
      }),
    );
  });

  test('a mirror grows on its own disks, if each leg has one', () => {
    const leg = (index: number, ...devices: string[]) =>
      devices.map((each) => ({ name: `[a_rimage_${index}]`, devices: each }));
    assert.deepEqual(disksOfLegs([...leg(0, '/dev/sda(1)'), ...leg(1, '/dev/sdb(10)', '/dev/sdb(30)')]), [
      '/dev/sda',
      '/dev/sdb',
    ]);
    assert.equal(
      disksOfLegs([...leg(0, '/dev/sda(1)', '/dev/sdb(9)'), ...leg(1, '/dev/sdb(1)', '/dev/sdc(9)')]),
      undefined,
    );
    assert.equal(disksOfLegs([...leg(0, '/dev/sda(1)'), ...leg(1, '/dev/sda(9)')]), undefined);
    assert.equal(disksOfLegs([...leg(0, '/dev/sda(1)'), ...leg(1, '[unknown](9)', '/dev/sdb(1)')]), undefined);
    assert.equal(disksOfLegs([]), undefined);
  });

  test('a disk that is missing, or not to be allocated from, has no room', () => {
    const { physicalVolumes } = disksWith(10, 10, 10);
    const [first, second, third] = physicalVolumes.map((each, index) => ({ ...each, isMissing: index === 1 }));
    assert.ok(first && second && third);
    const disks = { extentBytes, physicalVolumes: [first, second, { ...third, isAllocatable: false }] };
    assert.equal(planOf('striped', extentBytes, disks), undefined);
    assert.equal(largestBytes('raid1', sizeOf(30), disks), 0n);
  });
});
