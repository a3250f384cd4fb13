import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { contentOf, holdsFilesystemOfVolumes, partitionAdvice, partitionPath } from './adoptable-content.ts';

describe('what a disk of somebody else holds', () => {
  test('becomes a volume if it is a filesystem that volumes have, or nothing that is known', () => {
    const ext4 = { kind: 'filesystem', type: 'ext4', uuid: 'a' } as const;
    assert.deepEqual(contentOf(ext4), { type: 'mount', fsType: 'ext4' });
    assert.deepEqual(contentOf({ kind: 'blank' }), { type: 'block' });
    assert.match(String(contentOf({ kind: 'other', type: 'swap' })), /^it holds swap, and no filesystem/);
    assert.match(String(contentOf({ kind: 'partitions', type: 'gpt' })), /^it holds a partition table without/);
    assert.equal(holdsFilesystemOfVolumes(ext4), true);
    for (const other of [
      { kind: 'blank' },
      { kind: 'filesystem', type: 'minix', uuid: 'a' },
      { kind: 'filesystem', type: 'ext4', uuid: undefined },
      { kind: 'other', type: 'swap' },
    ] as const) {
      assert.equal(holdsFilesystemOfVolumes(other), false, JSON.stringify(other));
    }
  });

  test('if it is partitions, they are named as a configuration can have them', () => {
    const byId = '/dev/disk/by-id/scsi-S1';
    const links = ['/dev/disk/by-id/ata-S1-part1', `${byId}-part1`];
    assert.equal(partitionPath('sdb1', byId, links), `${byId}-part1`);
    assert.equal(partitionPath('sdb1', '/dev/sdb', links), '/dev/disk/by-id/ata-S1-part1');
    assert.equal(partitionPath('sdb1', '/dev/sdb', []), '/dev/sdb1');
    assert.equal(partitionAdvice([`${byId}-part1`]), `it has 1 partition. Name that as device instead: ${byId}-part1`);
    assert.equal(
      partitionAdvice(['/dev/sdb1', '/dev/sdb2', '/dev/sdb3', '/dev/sdb4']),
      'it has 4 partitions. Name one as device instead: /dev/sdb1, /dev/sdb2, /dev/sdb3, …',
    );
  });
});
