import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import { isOneInstant, startCounter } from '../support/counter.ts';
import { fromSnapshot, mebibyte, mount, TestDriver } from './controller-driver.ts';
import { read, type Workload, workload } from './workload.ts';

/** `HOLDFAST_TEST_GROUP_CUTS=2000` for a longer run. */
const cuts = Number(process.env['HOLDFAST_TEST_GROUP_CUTS'] ?? 200);

/** Some cuts are restored and mounted, as a backup would be; of the others the images are read. */
const restoredEvery = 50;

const capacity_range = { required_bytes: 320n * mebibyte };
const filesystems = ['ext4', 'xfs', 'ext4'] as const;

describe('a group cut across three volumes', () => {
  test(`GR07: in ${cuts} cuts, what one writer writes to all three in order is never out of order`, async (t) => {
    await using driver = await TestDriver.start({ locations: 'file' });
    await using first = await workload(driver, 'first', mount(filesystems[0]), { capacity_range });
    await using second = await workload(driver, 'second', mount(filesystems[1]), { capacity_range });
    await using third = await workload(driver, 'third', mount(filesystems[2]), { capacity_range });
    const volumes = [first, second, third];
    const files = volumes.map(({ path }) => join(path, 'counter'));
    await using _writer = await startCounter(files);
    const offsets = files.map(placeOf);

    const seen = new Set<bigint>();
    const startedMs = performance.now();
    for (let cut = 0; cut < cuts; cut++) {
      const group = await cutGroup(driver, `g${cut}`, volumes);
      const members = volumes.map(({ id }) => memberOf(group, id));
      const counters = members.map((id, index) => {
        const image = driver.scratch.join('data/pools/main/snapshots', id, 'data');
        return read(image, 8, offsets[index]).readBigUInt64LE();
      });
      assert.ok(isOneInstant(counters), `cut ${cut}: ${counters}`);
      if (cut % restoredEvery === 0) assert.deepEqual(await restoredCounters(driver, members), counters);
      seen.add(counters[0] ?? 0n);
      const { group_snapshot_id } = group;
      await driver.client.groupController.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids: members });
    }
    // The writer went on between them, so they are not all one and the same.
    assert.ok(seen.size > cuts / 2, `${seen.size} different counters in ${cuts} cuts`);
    t.diagnostic(`${cuts} cuts in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
  });
});

/** Where in its image the file's only block is. Both filesystems overwrite it in place, so it stays there. */
function placeOf(file: string): number {
  const output = execFileSync('filefrag', ['-v', '-b1024', file], { encoding: 'utf8' });
  const place = /^ *0: +0\.\. +3: +(\d+)\.\./m.exec(output)?.[1];
  assert.ok(place, output);
  return Number(place) * 1024;
}

async function cutGroup(
  driver: TestDriver,
  name: string,
  volumes: readonly Workload[],
): Promise<wire.VolumeGroupSnapshot> {
  const { group_snapshot } = await driver.client.groupController.CreateVolumeGroupSnapshot({
    name,
    source_volume_ids: volumes.map(({ id }) => id),
  });
  assert.ok(group_snapshot);
  return group_snapshot;
}

function memberOf({ snapshots }: wire.VolumeGroupSnapshot, volumeId: string): string {
  const member = snapshots.find(({ source_volume_id }) => source_volume_id === volumeId);
  assert.ok(member);
  return member.snapshot_id;
}

/** The counters as a workload sees them in volumes that are made from the members. */
async function restoredCounters(driver: TestDriver, members: readonly string[]): Promise<bigint[]> {
  const counters: bigint[] = [];
  for (const [index, member] of members.entries()) {
    const changes = { capacity_range, volume_content_source: fromSnapshot(member) };
    const name = `of ${member}`;
    let id = '';
    {
      await using restored = await workload(driver, name, mount(filesystems[index]), changes);
      counters.push(read(join(restored.path, 'counter'), 8).readBigUInt64LE());
      id = restored.id;
    }
    await driver.controller.DeleteVolume({ volume_id: id });
  }
  return counters;
}
