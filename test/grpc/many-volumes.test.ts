import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { volumeIdFor } from '../../src/volume/id.ts';
import { parseRecord, serializeRecord } from '../../src/volume/record.ts';
import { create, gibibyte, makeVolume, mebibyte, nodeId, TestDriver, volumeOf } from './controller-driver.ts';

const count = 1500;
const sizeBytes = mebibyte;

test('LV01 GC01: 1500 volumes are listed, each once, by pages too, and every one counts', async () => {
  const options = { locations: 'file', pools: { main: {} } } as const;
  const empty = await TestDriver.start(options);
  const request = { capacity_range: { required_bytes: sizeBytes } };
  const first = await makeVolume(empty, create('v0', request));
  const { available_capacity: before } = await empty.controller.GetCapacity({});
  const volumes = empty.scratch.join('data/pools/main/volumes');
  const text = readFileSync(join(volumes, first, 'volume.json'), 'utf8');
  const ids = [first];
  // As if each had been made by a call: they differ in their names alone.
  for (let index = 1; index < count; index++) {
    const id = volumeIdFor(nodeId, 'main', `v${index}`);
    const directory = join(volumes, id);
    mkdirSync(directory);
    writeFileSync(join(directory, 'data'), '');
    truncateSync(join(directory, 'data'), Number(sizeBytes));
    writeFileSync(
      join(directory, 'volume.json'),
      serializeRecord({ ...parseRecord(text, 'v0'), id, name: `v${index}` }),
    );
    ids.push(id);
  }
  const scratch = await empty.stop();

  await using driver = await TestDriver.start(options, scratch);
  const idsOf = (entries: Awaited<ReturnType<typeof driver.controller.ListVolumes>>['entries']) =>
    entries.map((entry) => volumeOf(entry).volume_id);
  const whole = await driver.controller.ListVolumes({});
  assert.deepEqual(idsOf(whole.entries).sort(), [...ids].sort());
  const paged: string[] = [];
  for (let starting_token = '', pages = 0; pages < count; pages++) {
    const { entries, next_token } = await driver.controller.ListVolumes({ max_entries: 137, starting_token });
    assert.ok(entries.length <= 137);
    paged.push(...idsOf(entries));
    if (next_token === '') break;
    starting_token = next_token;
  }
  assert.deepEqual(paged.sort(), [...ids].sort());

  const capacity = async () => (await driver.controller.GetCapacity({})).available_capacity;
  const promised = before - (await capacity());
  // What each may still come to write; records and directories take a little of their own.
  const expected = BigInt(count - 1) * sizeBytes;
  assert.ok(promised >= expected && promised < expected + 64n * mebibyte, `${promised} of ${expected} bytes`);
  const free = await capacity();
  await driver.controller.DeleteVolume({ volume_id: ids[700] ?? '' });
  assert.ok((await capacity()) > free);
  assert.ok(free < 4n * gibibyte);
});
