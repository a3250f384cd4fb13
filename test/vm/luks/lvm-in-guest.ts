/**
 * Runs in the virtual machine: encryption over logical volumes, on real LVM.
 * node lvm-in-guest.ts DISK…
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import { mappedName } from '../../../src/pool/kinds/lvm/names.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { FailedPrecondition } from '../../../src/volume/errors.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { mapperName } from '../../../src/volume/mapper-name.ts';
import { Secrets } from '../../../src/volume/secrets.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, lvm } from '../../support/lvm-pool.ts';
import { mountedDevice } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { read } from './bytes.ts';
import { assertCounts } from './counted-operations.ts';
import { openLvmWithLayer } from './encrypted-pool.ts';

const [, , ...disks] = process.argv;
const mebibyte = 1n << 20n;
const headerBytes = 16 << 20;
const block = { type: 'block' } as const;
const marker = 'what nobody may see';

function open(scratch: Scratch): Promise<Pool> {
  return openLvmWithLayer(scratch, groupFor(scratch, disks));
}

function deviceNames(): string[] {
  return readdirSync('/sys/block').filter((name) => name.startsWith('dm-'));
}

/** In device-mapper. */
function nameOf(deviceName: string): string {
  return readFileSync(`/sys/block/${deviceName}/dm/name`, 'utf8').trim();
}

function mapped(): string[] {
  return deviceNames().map(nameOf);
}

describe('encrypted logical volumes', () => {
  test('are made, mounted, grown, copied and opened again by another process', async () => {
    using scratch = new Scratch('luks');
    const pool = await open(scratch);
    const { encryption, id } = await pool.create({ ...volumeSpec('used'), encryption: 'luks2' });
    {
      await using mounted = await mountedDevice(pool, id, scratch);
      writeFileSync(`${mounted.path}/file`, marker);
      assert.ok(mapped().includes(mapperName(id)));
      await pool.grow(id, 128n * mebibyte);
      const sectors = readFileSync(`/sys/block/${mounted.devicePath.replace('/dev/', '')}/size`, 'utf8');
      assert.equal(BigInt(sectors) * 512n, 128n * mebibyte);
    }
    await eventually(async () => assert.deepEqual(await pool.attached(id), []));
    assert.ok(!mapped().includes(mapperName(id)));

    const snapshotId = snapshotIdFor('node', 'cut');
    const [cut] = await pool.takeSnapshots([{ id: snapshotId, name: 'cut', sourceId: id, parameters: {} }]);
    assert.deepEqual(cut?.encryption, encryption);
    const copy = volumeSpec('copy', { sizeBytes: 128n * mebibyte });
    const clone = await pool.create(copy, { type: 'snapshot', id: snapshotId });
    await pool.close();

    const again = await open(scratch);
    for (const each of [id, clone.id]) {
      await using mounted = await mountedDevice(again, each, scratch);
      assert.equal(readFileSync(`${mounted.path}/file`, 'utf8'), marker);
    }
    const wrong = new Secrets({ key: Buffer.alloc(32, 7).toString('base64') });
    await assert.rejects(attachDevice(again, id, { persistent: false, secrets: wrong }), FailedPrecondition);
    assert.deepEqual(await again.attached(id), []);
    // Neither is a change of keys that is refused any use of it.
    const neither = new Secrets({
      key: Buffer.alloc(32, 7).toString('base64'),
      previousKey: Buffer.alloc(32, 8).toString('base64'),
    });
    await assert.rejects(attachDevice(again, id, { persistent: false, secrets: neither }), FailedPrecondition);
    assert.deepEqual(await again.attached(id), []);
    await again.remove(id);
    await again.close();
    assert.deepEqual(mapped(), []);
  });

  test('are unreadable when their deletion is answered, also for who has them open', async () => {
    using scratch = new Scratch('luks');
    const volumeGroup = groupFor(scratch, disks);
    const pool = await open(scratch);
    const isUnreadableAfter = async (id: string, work: () => Promise<unknown>) => {
      const names = lvm('lvs', '--noheadings', '--options', 'lv_name', volumeGroup);
      const name = names.match(new RegExp(`${id}\\S*`))?.[0] ?? '';
      lvm('lvchange', '--activate', 'y', `${volumeGroup}/${name}`);
      const device = deviceNames().find((each) => nameOf(each) === mappedName(volumeGroup, name));
      assert.ok(device !== undefined, `${name} is none of ${mapped()}`);
      const held = openSync(`/dev/${device}`, 'r');
      assert.equal(read(`/dev/${device}`, headerBytes).toString('latin1', 0, 4), 'LUKS');
      await work();
      const isErased = read(`/dev/${device}`, headerBytes).every((byte) => byte === 0);
      closeSync(held);
      assert.ok(isErased, `the header of ${name} is still there`);
    };
    const volume = (name: string, undeleteSeconds: number) =>
      pool.create({ ...volumeSpec(name, { content: block, undeleteSeconds }), encryption: 'luks2' });

    const gone = await volume('gone', 0);
    const snapshot = { id: snapshotIdFor('node', 'gone'), name: 'gone', sourceId: gone.id, parameters: {} };
    await pool.takeSnapshots([snapshot]);
    await isUnreadableAfter(snapshot.id, () => pool.removeSnapshot(snapshot.id));
    await isUnreadableAfter(gone.id, () => pool.remove(gone.id));
    const kept = await volume('kept', 3600);
    await isUnreadableAfter(kept.id, async () => {
      await pool.remove(kept.id);
      await pool.purge(kept.id);
    });
    await pool.close();
  });

  test('start cryptsetup as often as the document says, and never with a key', async () => {
    using scratch = new Scratch('luks');
    await assertCounts(() => open(scratch), scratch);
  });
});
