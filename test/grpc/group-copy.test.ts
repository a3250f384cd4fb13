import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { groupIdFor, memberIdFor, parseVolumeId } from '../../src/volume/id.ts';
import { openPaths } from '../support/open-paths.ts';
import { block, create, fails, gibibyte, makeVolume, nodeId, TestDriver } from './controller-driver.ts';

const large = { capacity_range: { required_bytes: gibibyte }, volume_capabilities: [block()] };

/** What this process, the driver in it too, has open in the pool's drafts. */
function openDrafts(driver: TestDriver): string[] {
  const drafts = driver.scratch.join('main/tmp');
  return openPaths().filter((path) => path.startsWith(drafts));
}

describe('a group of copies', () => {
  test('GR10 T02: when one cannot be made, nothing goes on behind the answer, and the retry is whole', async () => {
    await using driver = await TestDriver.start();
    const ids = [];
    for (const name of ['a', 'b']) {
      const id = parseVolumeId(await makeVolume(driver, create(name, large)));
      assert.ok(id);
      ids.push(id);
    }
    const [good, bad] = ids;
    assert.ok(good !== undefined && bad !== undefined);
    const image = openSync(driver.scratch.join('main/volumes', good, 'data'), 'r+');
    const content = randomBytes(16 << 20);
    for (let offset = 0; offset < 768 << 20; offset += content.length)
      writeSync(image, content, 0, content.length, offset);
    fsyncSync(image);
    closeSync(image);
    const inTheWay = driver.scratch.join('main/tmp', `${memberIdFor(groupIdFor(nodeId, 'g'), bad)}.copy/data`);
    mkdirSync(inTheWay, { recursive: true });
    const request = { name: 'g', source_volume_ids: ids };
    await fails(driver.client.groupController.CreateVolumeGroupSnapshot(request), 'INTERNAL');
    assert.deepEqual(openDrafts(driver), []);
    rmSync(inTheWay, { recursive: true });
    const { group_snapshot } = await driver.client.groupController.CreateVolumeGroupSnapshot(request);
    const member = group_snapshot?.snapshots.find(({ source_volume_id }) => source_volume_id === good);
    assert.ok(member);
    const copy = readFileSync(driver.scratch.join('main/snapshots', member.snapshot_id, 'data'));
    assert.ok(copy.equals(readFileSync(driver.scratch.join('main/volumes', good, 'data'))));
  });
});
