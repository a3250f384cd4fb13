import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Child } from '../support/child.ts';
import { isOneInstant, startCounter } from '../support/counter.ts';
import { soon } from '../support/eventually.ts';
import { writeInPieces } from '../support/many-pieces.ts';
import {
  block,
  create,
  fails,
  fromSnapshot,
  fromVolume,
  makeSnapshot,
  makeVolume,
  mebibyte,
  mount,
  TestDriver,
} from './controller-driver.ts';
import { read, workload, write } from './workload.ts';

const sharing = { locations: 'file' } as const;
const capacity_range = { required_bytes: 128n * mebibyte };
const roomForXfs = { required_bytes: 320n * mebibyte };

/** In how many pieces a file lies. What filefrag says at the end counts pieces as one that have but holes between them. */
function piecesOf(path: string): number {
  const map = execFileSync('filefrag', ['-v', path], { encoding: 'utf8', maxBuffer: 16 << 20 });
  return map.match(/^ *\d+: /gm)?.length ?? 0;
}

describe('a volume in use whose image lies in many pieces', () => {
  test('CS13 GR07: is cut at one instant, although most of it is cloned before', async () => {
    await using driver = await TestDriver.start(sharing);
    await using source = await workload(driver, 'source', mount('xfs'), { capacity_range: roomForXfs });
    const large = join(source.path, 'large');
    execFileSync('fallocate', ['--length', '64M', large]);
    writeInPieces(large, 6000);
    const image = driver.scratch.join('data/pools/main/volumes', source.id, 'data');
    assert.ok(piecesOf(image) > 2048, `${piecesOf(image)} pieces`);
    const names = ['a', 'b', 'c'];
    const snapshots: string[] = [];
    {
      await using _writer = await startCounter(names.map((name) => join(source.path, name)));
      for (let cut = 0; cut < 3; cut++) snapshots.push(await makeSnapshot(driver, source.id, `s${cut}`));
    }
    const content = readFileSync(large);
    for (const [cut, snapshot] of snapshots.entries()) {
      const volume_content_source = fromSnapshot(snapshot);
      await using restored = await workload(driver, `r${cut}`, mount('xfs'), {
        capacity_range: roomForXfs,
        volume_content_source,
      });
      const counters = names.map((name) => read(join(restored.path, name), 8).readBigUInt64LE());
      assert.ok(isOneInstant(counters), `${counters}`);
      assert.ok(readFileSync(join(restored.path, 'large')).equals(content));
    }
  });

  test('CS13: a raw block volume has in its snapshot and its clone what was written before, synced or not', async () => {
    await using driver = await TestDriver.start(sharing);
    await using source = await workload(driver, 'source', block(), { capacity_range });
    for (const pieces of [1, 3000]) {
      writeInPieces(source.path, pieces);
      // In the device's cache only.
      const last = randomBytes(4096);
      const device = openSync(source.path, 'r+');
      writeSync(device, last, 0, last.length, 100 << 20);
      const snapshot = await makeSnapshot(driver, source.id, `s${pieces}`);
      const also = randomBytes(4096);
      writeSync(device, also, 0, also.length, 101 << 20);
      const clone = await makeVolume(
        driver,
        create(`c${pieces}`, { capacity_range, volume_content_source: fromVolume(source.id) }),
      );
      closeSync(device);
      const location = driver.scratch.join('data/pools/main');
      assert.ok(read(join(location, 'snapshots', snapshot, 'data'), last.length, 100 << 20).equals(last));
      assert.ok(read(join(location, 'volumes', clone, 'data'), also.length, 101 << 20).equals(also));
      assert.equal(read(join(location, 'volumes', clone, 'data'), 4, (pieces - 1) * 8192).readUInt32LE(), pieces);
    }
  });
});

describe('a cut that fails after the freeze', () => {
  test('CS09 GR10: leaves nothing, and nobody waiting; the names can be used again', async () => {
    await using driver = await TestDriver.start(sharing);
    await using first = await workload(driver, 'first', mount('ext4'), { capacity_range });
    await using second = await workload(driver, 'second', mount('ext4'), { capacity_range });
    const requests = {
      snapshot: () => driver.controller.CreateSnapshot({ source_volume_id: first.id, name: 's' }),
      group: () =>
        driver.client.groupController.CreateVolumeGroupSnapshot({
          name: 'g',
          source_volume_ids: [first.id, second.id],
        }),
      clone: () =>
        driver.controller.CreateVolume(
          create('c', {
            capacity_range,
            volume_capabilities: [mount('ext4')],
            volume_content_source: fromVolume(first.id),
          }),
        ),
    };
    const location = driver.scratch.join('data/pools/main');
    const made = () => ['snapshots', 'groups', 'volumes'].map((place) => readdirSync(join(location, place)));
    const drafts = join(location, 'tmp');
    for (const request of Object.values(requests)) {
      const before = made();
      // Nothing can be cloned to another filesystem, which nobody knows before it is tried.
      execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', drafts]);
      try {
        await fails(request(), 'INTERNAL', /cross-device|EXDEV/);
      } finally {
        execFileSync('umount', ['--lazy', drafts]);
      }
      for (const { path } of [first, second]) {
        await using writer = await Child.start(
          ['sh', '-c', 'echo; exec dd if=/dev/zero of="$0" bs=4096 count=1 conv=fsync status=none', join(path, 'file')],
          { tells: true },
        );
        await soon(writer.ended(), `nobody can write to ${path}`);
      }
      assert.deepEqual(made(), before);
      await request();
    }
    write(join(first.path, 'file'), randomBytes(4096));
  });
});
