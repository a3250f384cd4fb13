import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Disk } from '../../../../kernel/block/disks.ts';
import type { MatchSection } from '../../../location/match/criteria.ts';
import type { Member } from '../../../location/match/members.ts';
import { claimOn, type SeenDisk } from './claim.ts';
import { longestSectionName, poolNameFor } from './pool-name.ts';

const disk: Disk = {
  ...{ name: 'sdb', devicePath: '/dev/sdb', device: { major: 8, minor: 16 }, sizeBytes: 1n << 40n, bus: 'scsi' },
  ...{ isRotational: true, isRemovable: false, isReadonly: false, isZoned: false, model: 'HUS726', serial: 'V8G6-A1B' },
  ...{ identity: 'wwid naa.1', holders: [], partitions: [] },
};
const big: MatchSection = { name: 'big', match: { model: 'HUS*' } };
const other: MatchSection = { name: 'other', match: { bus: 'scsi' } };
const none: MatchSection = { name: 'none', match: { bus: 'usb' } };
const seen = (changes: Partial<SeenDisk> = {}): SeenDisk => ({
  disk,
  links: [],
  owners: [],
  namesakes: [],
  ...changes,
});
const poolName = poolNameFor('big', disk, 'wwid naa.1');
const member: Member = { poolName: 'big-then', section: 'big', identity: 'wwid naa.1' };

describe('which section is to have a disk', () => {
  test('the one that matches it', () => {
    const candidate = { kind: 'candidate', section: 'big', poolName, identity: 'wwid naa.1' };
    assert.deepEqual(claimOn(seen(), [none, big], []), candidate);
    assert.deepEqual(claimOn(seen(), [none], []), { kind: 'none' });
  });

  test('of two neither', () => {
    const claim = claimOn(seen(), [big, other], []);
    assert.equal(claim.kind, 'passed-over');
    assert.match(claim.kind === 'passed-over' ? claim.reason : '', /pools big and other both match it/);
  });

  test('what was its pool stays so, whatever matches it now', () => {
    for (const sections of [[big], [none], [other], [big, other]]) {
      assert.deepEqual(claimOn(seen(), sections, [member]), { kind: 'member', poolName: 'big-then' });
    }
  });

  test('none that another pool names, that nothing names, or that is not the only one of its name', () => {
    const nameless = { ...disk, identity: undefined };
    for (const [changes, reason] of [
      [{ owners: ['pool fast'] }, /^it is of pool fast$/],
      [{ disk: nameless }, /^nothing names it permanently/],
      [{ namesakes: ['sdc'] }, /^sdc has the same identity$/],
    ] as const) {
      for (const members of 'namesakes' in changes ? [[]] : [[], [member]]) {
        const claim = claimOn(seen(changes), [big], members);
        assert.match(claim.kind === 'passed-over' ? claim.reason : claim.kind, reason);
        assert.deepEqual(claimOn(seen(changes), [none], members), { kind: 'none' });
      }
    }
  });

  test('H49: what was its pool stays so beside another disk of its name', () => {
    const claim = claimOn(seen({ namesakes: ['sdc'] }), [big], [member]);
    assert.deepEqual(claim, { kind: 'member', poolName: 'big-then' });
  });

  test('none whose pool has another disk', () => {
    const claim = claimOn(seen(), [big], [{ poolName, section: 'big', identity: 'wwid naa.2' }]);
    assert.match(claim.kind === 'passed-over' ? claim.reason : '', /has another disk$/);
  });
});

describe('the name of the pool of a disk', () => {
  test('says the section and the serial number', () => {
    assert.match(poolName, /^big-v8g6a1b-[a-z2-7]{6}$/);
    assert.match(poolNameFor('big', { serial: undefined }, 'wwid naa.1'), /^big-[a-z2-7]{6}$/);
    assert.match(poolNameFor('big', { serial: '0123456789abcdef' }, 'x'), /^big-456789abcdef-[a-z2-7]{6}$/);
  });

  test('can be a pool’s name, is the same each time, and another one for another disk', () => {
    const section = fc.stringMatching(new RegExp(`^[a-z]([-a-z0-9]{0,${longestSectionName - 2}}[a-z0-9])?$`));
    const text = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(section, text, text, text, (name, serial, one, two) => {
        const first = poolNameFor(name, { serial }, one);
        assert.match(first, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
        assert.equal(poolNameFor(name, { serial }, one), first);
        if (one !== two) assert.notEqual(poolNameFor(name, { serial }, two), first);
      }),
    );
  });
});
