/**
 * Runs in the virtual machine, in a mount namespace of its own as a driver in a container does, on a node whose LVM is too old.
 * node older-in-guest.ts DISK…    disks on scsi, of 128 MiB
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { findLvm } from '../../../src/pool/kinds/lvm/commands/place.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { groupFor, openTestLvm } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { disksWith, fill, idOf, onlyPoolIsLeft, patienceMs, presentDisks, spec } from './layouts-scene.ts';

/** As an operator of the node types it. */
function ofNode(program: string, ...args: readonly string[]): string {
  const words = ['--mount=/proc/1/ns/mnt', '--', program, ...args];
  return execFileSync('nsenter', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

const namesOf = (volumeGroup: string) =>
  ofNode('lvm', 'lvs', '--noheadings', '-o', 'lv_name', volumeGroup).trim().split(/\s+/).sort();

/** Whether somebody waits for a lock of a file (proc_locks(5)). */
function isWaitedFor(path: string): boolean {
  const { ino } = statSync(path);
  return readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .some((line) => line.includes('-> FLOCK') && line.includes(`:${ino} `));
}

describe('lvm 11: on a node whose LVM is older than 2.03.12', () => {
  test('the LVM beside the driver is used, with the locks of the node', async () => {
    assert.match(ofNode('lvm', 'version'), /LVM version: +2\.03\.11/);
    const { environment, lockDirectory, place } = await findLvm(new DiskQueue('test', 1));
    assert.deepEqual(
      { environment, lockDirectory, place },
      { environment: { DM_DISABLE_UDEV: '1' }, lockDirectory: '/proc/1/root/run/lock/lvm', place: 'own' },
    );
  });

  test('a change of the driver waits for one of the node', async () => {
    using scratch = new Scratch('older');
    const volumeGroup = groupFor(scratch, presentDisks());
    const pool = await openTestLvm(scratch, volumeGroup);
    const lockPath = `/proc/1/root/run/lock/lvm/V_${volumeGroup}`;
    const before = namesOf(volumeGroup);
    const holder = spawn('flock', ['--exclusive', lockPath, 'sh', '-c', 'echo held; read _'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await once(holder.stdout, 'data');
    const creating = pool.create(spec('waits'));
    await eventually(() => assert.ok(isWaitedFor(lockPath)), patienceMs);
    assert.deepEqual(
      ofNode('lvm', 'lvs', '--nolocking', '--noheadings', '-o', 'lv_name', volumeGroup).trim().split(/\s+/).sort(),
      before,
    );
    holder.stdin.end();
    await creating;
    assert.equal(namesOf(volumeGroup).length, before.length + 1);
    await pool.remove(idOf('waits'));
    await onlyPoolIsLeft(volumeGroup);
    await pool.close();
  });

  test('volumes live while the LVM of the node changes the group, too, and it reads what is there', async () => {
    using scratch = new Scratch('older');
    const volumeGroup = groupFor(scratch, presentDisks());
    const pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero' });
    let isLiving = true;
    let changes = 0;
    const theirs = async () => {
      for (; isLiving; changes++) {
        const name = `his${changes}`;
        const words = ['--yes', '--zero', 'n', '--wipesignatures', 'n', '--size', '4m', '--name', name, volumeGroup];
        for (const args of [
          ['lvcreate', ...words],
          ['lvremove', '--yes', `${volumeGroup}/${name}`],
        ]) {
          const child = spawn('nsenter', ['--mount=/proc/1/ns/mnt', '--', 'lvm', ...args], { stdio: 'ignore' });
          const [code] = await once(child, 'exit');
          assert.equal(code, 0, args.join(' '));
        }
      }
    };
    const ours = async () => {
      try {
        for (let round = 0; round < 3; round++) {
          const { id } = await pool.create(spec('mine'));
          await fill(pool, 'mine');
          const snapshot = { id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId: id, parameters: {} };
          await pool.takeSnapshots([snapshot]);
          await pool.create(spec('copy'), { type: 'snapshot', id: snapshot.id });
          await pool.removeSnapshot(snapshot.id);
          for (const name of ['mine', 'copy']) await pool.remove(idOf(name));
          await onlyPoolIsLeft(volumeGroup);
          assert.deepEqual(disksWith('mine'), []);
        }
      } finally {
        isLiving = false;
      }
    };
    await Promise.all([theirs(), ours()]);
    assert.ok(changes > 0);
    ofNode('lvm', 'vgck', volumeGroup);
    assert.deepEqual(namesOf(volumeGroup), ['holdfast-pool']);
    await pool.close();
  });
});
