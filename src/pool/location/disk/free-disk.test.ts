import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Content } from '../../../kernel/block/blkid.ts';
import type { Disk } from '../../../kernel/block/disks.ts';
import { type DiskFacts, whyNotFree } from './free-disk.ts';

const disk: Disk = {
  ...{ name: 'sdb', devicePath: '/dev/sdb', device: { major: 8, minor: 16 }, sizeBytes: 1n << 40n, bus: 'scsi' },
  ...{ isRotational: true, isRemovable: false, isReadonly: false, isZoned: false, model: 'M', serial: 'S' },
  ...{ identity: 'wwid naa.5000', holders: [], partitions: [] },
};

const free: DiskFacts = {
  ...{ disk, owners: [], mountedAt: [], swaps: [], holders: [], isHeld: false, namesakes: [] },
  content: { found: { kind: 'blank' }, isZeroAtBothEnds: true },
};

const partition = { name: 'sdb1', device: { major: 8, minor: 17 }, holders: [] };

/** Each of these alone makes a disk foreign, or of no use. */
const flaws: readonly [RegExp, (facts: DiskFacts) => DiskFacts][] = [
  [/no medium/, (facts) => ({ ...facts, disk: { ...facts.disk, sizeBytes: 0n } })],
  [/read-only/, (facts) => ({ ...facts, disk: { ...facts.disk, isReadonly: true } })],
  [/can be taken out/, (facts) => ({ ...facts, disk: { ...facts.disk, isRemovable: true } })],
  [/zones/, (facts) => ({ ...facts, disk: { ...facts.disk, isZoned: true } })],
  [/no serial number/, (facts) => ({ ...facts, disk: { ...facts.disk, identity: undefined } })],
  [/sdc has the same identity/, (facts) => ({ ...facts, namesakes: ['sdc'] })],
  [/of pool fast/, (facts) => ({ ...facts, owners: ['pool fast'] })],
  [/mounted at \/, \/a, \/b and 1 more$/, (facts) => ({ ...facts, mountedAt: ['/', '/a', '/b', '/c'] })],
  [/\/dev\/sdb1 is swapped to/, (facts) => ({ ...facts, swaps: ['/dev/sdb1'] })],
  [/dm-0 \(vg0-data\) is made of it/, (facts) => ({ ...facts, holders: ['dm-0 (vg0-data)'] })],
  [/^\/dev\/sdb1, \/dev\/sdb2 are swapped to$/, (facts) => ({ ...facts, swaps: ['/dev/sdb1', '/dev/sdb2'] })],
  [/^dm-0 \(a\), dm-1 \(b\) are made of it$/, (facts) => ({ ...facts, holders: ['dm-0 (a)', 'dm-1 (b)'] })],
  [/in use/, (facts) => ({ ...facts, isHeld: true })],
  [/partitions of it \(1\)/, (facts) => ({ ...facts, disk: { ...facts.disk, partitions: [partition] } })],
  [/was not read/, (facts) => ({ ...facts, content: undefined })],
  [/cannot be read: EIO/, (facts) => ({ ...facts, content: 'EIO' })],
  [/unknown kind/, (facts) => ({ ...facts, content: { found: { kind: 'blank' }, isZeroAtBothEnds: false } })],
  ...(
    [
      [/several kinds/, { kind: 'ambivalent' }],
      [/a partition table \(gpt\)/, { kind: 'partitions', type: 'gpt' }],
      [/a filesystem \(xfs\)/, { kind: 'filesystem', type: 'xfs', uuid: undefined }],
      [/holds LVM2_member/, { kind: 'other', type: 'LVM2_member' }],
    ] satisfies readonly [RegExp, Content][]
  ).map(([reason, found]): (typeof flaws)[number] => [
    reason,
    (facts) => ({ ...facts, content: { found, isZeroAtBothEnds: true } }),
  ]),
];

test("a disk that is blank, in nobody's use and known by a name of its own is free", () => {
  assert.deepEqual(whyNotFree(free), []);
});

test('each flaw is a reason by itself', () => {
  for (const [reason, spoil] of flaws) {
    const found = whyNotFree(spoil(free));
    assert.equal(found.length, 1, `${reason}: ${found.join('; ')}`);
    assert.match(found[0] ?? '', reason);
  }
});

test('no flaws together make a disk free', () => {
  fc.assert(
    fc.property(fc.subarray([...flaws], { minLength: 1 }), (some) => {
      assert.notEqual(whyNotFree(some.reduce((facts, [, spoil]) => spoil(facts), free)).length, 0);
    }),
  );
});
