/**
 * Runs in the virtual machine: volume groups that are made of blank disks.
 * node devices-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { extname, join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { blankDisk, guestDisks, openTestDisk, shell } from '../../support/disk-pool.ts';
import { stateOf } from '../../support/disk-state.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { lvm, testThinPool } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { disksOfGroup, openOwnGroup, ownGroup, preciousSpec } from './devices-pool.ts';

const disks = guestDisks();
const diskNamed = (name: string) => disks.get(name) ?? assert.fail(`there is no disk ${name}`);
const [first, second, third] = ['first', 'second', 'third'].map(diskNamed) as [string, string, string];
const driver = fileURLToPath(new URL(`devices-driver${extname(import.meta.url)}`, import.meta.url));

/** No pool is opened, and not one write reaches any of the disks. */
async function refused(data: string, devices: readonly string[], reason: RegExp): Promise<void> {
  const there = devices.filter((path) => existsSync(path));
  const before = there.map(stateOf);
  await assert.rejects(openOwnGroup(data, devices), reason);
  assert.deepEqual(there.map(stateOf), before);
}

const noteIn = (data: string) => join(data, 'pools', 'test.disks');

function clearAll(): void {
  if (disksOfGroup() !== undefined) lvm('vgremove', '--force', '--force', '--yes', ownGroup);
  for (const disk of [first, second, third]) blankDisk(disk);
}

describe('a volume group that is made of blank disks', () => {
  beforeEach(clearAll);

  test('is made of all that are named, and found again, also by a driver that does not know it', async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    const pool = await openOwnGroup(data, [first, second]);
    await pool.create(preciousSpec);
    assert.deepEqual(disksOfGroup(), [first, second]);
    const [size = ''] = lvm('vgs', '--noheadings', '--units', 'm', '--nosuffix', '-o', 'vg_mda_size', ownGroup)
      .trim()
      .split('.');
    assert.ok(Number(size) >= 31, `room for the tags of thousands of volumes: ${size} MiB`);
    assert.equal(existsSync(noteIn(data)), false);
    await pool.close();
    // In another order, and after the driver's own directory was lost.
    for (const directory of [data, scratch.join('other')]) {
      const again = await openOwnGroup(directory, [second, first]);
      assert.equal((await again.find(preciousSpec.id))?.name, 'precious');
      await again.close();
    }
  });

  test('grows by blank disks that are added, and goes on without one that is not blank', async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    const pool = await openOwnGroup(data, [first]);
    await pool.create(preciousSpec);
    await pool.close();
    shell(`mkfs.ext4 -q -F ${third}`);
    const his = stateOf(third);
    const larger = await openOwnGroup(data, [first, second, third]);
    assert.deepEqual(disksOfGroup(), [first, second]);
    assert.equal((await larger.find(preciousSpec.id))?.name, 'precious');
    await larger.create(volumeSpec('more', { content: { type: 'block' }, sizeBytes: 100n << 20n }));
    await larger.close();
    assert.deepEqual(stateOf(third), his);
    // One that is not there any more, or not named, is no reason to change anything.
    const same = await openOwnGroup(data, [first, '/dev/disk/by-id/none']);
    assert.deepEqual(disksOfGroup(), [first, second]);
    await same.close();
  });

  test('may have a thin pool', async () => {
    using scratch = new Scratch('devices');
    const thinPool = { ...testThinPool, sizeBytes: 64n << 20n };
    const pool = await openOwnGroup(scratch.join('data'), [first, second], { thinPool });
    await pool.create(preciousSpec);
    await pool.close();
  });

  const fates: Readonly<Record<string, readonly [shell: string, reason: RegExp]>> = {
    'a filesystem': [`mkfs.ext4 -q -F ${second}`, /it holds a filesystem \(ext4\)/],
    'a physical volume of somebody': [`lvm pvcreate --quiet --yes ${second}`, /it holds LVM2_member/],
    'data in its last sector': [
      `printf x | dd of=${second} bs=512 seek=$(($(blockdev --getsz ${second}) - 1)) conv=notrunc,fsync status=none`,
      /it holds data of an unknown kind/,
    ],
  };
  for (const [what, [prepare, reason]] of Object.entries(fates)) {
    test(`is not made if one of its disks holds ${what}: none of them is written to`, async () => {
      using scratch = new Scratch('devices');
      shell(prepare);
      await refused(scratch.join('data'), [first, second], reason);
      assert.equal(existsSync(noteIn(scratch.join('data'))), false);
    });
  }

  test('is not made of a disk that is named twice, is not there, has no name, or is of another pool', async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    const link = scratch.join('link');
    symlinkSync(first, link);
    await refused(data, [first, link], /are one disk. Name it once/);
    await refused(data, [first, '/dev/disk/by-id/none'], /there is no \/dev\/disk\/by-id\/none/);
    await refused(data, [first, diskNamed('nameless')], /nothing names it permanently/);
    const other = await openTestDisk({ join: () => scratch.join('other') }, second);
    await assert.rejects(openOwnGroup(data, [first, second]), /is made of it|is in use/);
    await other.close();
  });

  test('is not taken for one of the same name on other disks, nor made anew where one was', async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    lvm('vgcreate', '--yes', ownGroup, third);
    await refused(data, [first, second], /lies on none of its devices/);
    clearAll();
    await (await openOwnGroup(data, [first])).close();
    lvm('vgremove', '--force', '--force', '--yes', ownGroup);
    blankDisk(first);
    await refused(data, [first], /there is no volume group holdfast-test on this node/);
  });

  test("somebody else's group is not extended, whoever he is, before anything is known of it", async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    lvm('vgcreate', '--yes', ownGroup, first);
    await refused(data, [first, second], /was not made by Holdfast/);
    clearAll();
    // A group of another pool than this node had.
    await (await openOwnGroup(data, [first])).close();
    clearAll();
    await (await openOwnGroup(scratch.join('other'), [first])).close();
    await refused(data, [first, second], /holds pool \S+, but on this node the pool was/);
    // One that this node does not know, and not all of it is named.
    clearAll();
    await (await openOwnGroup(scratch.join('third'), [first, third])).close();
    await refused(scratch.join('fourth'), [first, second], /only 1 of its 2 disks are among/);
  });

  /** @param before the disks that the group has then, if any; @param named those that are to be in it in the end */
  const lives: Readonly<Record<string, { readonly before: readonly string[]; readonly named: readonly string[] }>> = {
    'while it is made': { before: [], named: [first, second] },
    'while it grows': { before: [first], named: [first, second] },
  };
  for (const [moment, { before, named }] of Object.entries(lives)) {
    test(`T03: killed at each step ${moment}, it is finished on the same disks, and on no other`, async (t) => {
      const drive = (data: string, devices: readonly string[], point: readonly string[] = []) => {
        mkdirSync(data, { recursive: true });
        return spawnSync(process.execPath, [driver, data, devices.join(','), ...point], { encoding: 'utf8' });
      };
      const prepared = (scratch: Scratch) => {
        clearAll();
        const data = scratch.join('data');
        if (before.length > 0) assert.equal(drive(data, before).status, 0);
        return data;
      };
      using counting = new Scratch('devices');
      const counted = drive(prepared(counting), named);
      assert.equal(counted.status, 0, counted.stderr);
      const steps: string[] = JSON.parse(counted.stdout.trim());
      t.diagnostic(steps.join(' '));
      const passes = new Map<string, number>();
      for (const step of steps) {
        const pass = (passes.get(step) ?? 0) + 1;
        passes.set(step, pass);
        for (const when of ['before', 'after']) {
          using scratch = new Scratch('devices');
          const data = prepared(scratch);
          const killed = drive(data, named, [when, step, `${pass}`]);
          assert.equal(killed.signal, 'SIGKILL', `${when} ${step} ${pass}: ${killed.stderr}`);
          // Begun, and not in a group yet: no other disk is taken for it.
          if (before.length === 0 && existsSync(noteIn(data)) && disksOfGroup() === undefined) {
            await refused(data, [first, third], /was begun on disk .*, which is not among its devices/);
          }
          const again = drive(data, named);
          assert.equal(again.status, 0, `${when} ${step} ${pass}: ${again.stderr}`);
          assert.deepEqual(disksOfGroup(), named, `${when} ${step} ${pass}`);
          assert.equal(existsSync(noteIn(data)), false);
        }
      }
    });
  }

  test('what was begun is left alone once somebody else has made something of it', async () => {
    using scratch = new Scratch('devices');
    const data = scratch.join('data');
    mkdirSync(data, { recursive: true });
    const killed = spawnSync(process.execPath, [driver, data, `${first},${second}`, 'before', 'open/commit']);
    assert.equal(killed.signal, 'SIGKILL');
    lvm('vgcreate', '--yes', 'his', second);
    lvm('lvcreate', '--yes', '--size', '8m', '--activate', 'n', '--zero', 'n', '--name', 'data', 'his');
    await refused(data, [first, second], /it holds LVM2_member/);
    lvm('vgremove', '--force', '--force', '--yes', 'his');
    rmSync(noteIn(data));
  });
});
