/**
 * Runs in the virtual machine: volumes move between disks, images and a volume group.
 * node move-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import type { VolumeId } from '../../../src/volume/id.ts';
import { deviceOf, digestOf, write } from '../../move/devices.ts';
import { blankDisk, guestDisks } from '../../support/disk-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor } from '../../support/lvm-pool.ts';
import { mountedDevice } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { MovingNode } from './move-scene.ts';

const mib = 1n << 20n;
/** The space for a volume on the usual disk. */
const dataBytes = 64n * mib;
const given = guestDisks();
const disk = (name: string) => given.get(name) ?? assert.fail(name);
const block = { type: 'block' } as const;

/** A node with two disks of one size, and others that the test names. @param others pools, and the disks that they are */
async function openNode(scratch: Scratch, others: Readonly<Record<string, string>> = {}): Promise<MovingNode> {
  const disks = new Map([['one', disk('usual')], ['two', disk('victim')], ...Object.entries(others)]);
  return MovingNode.open({
    ...{ directory: scratch.path, disks },
    images: join('/xfs', basename(scratch.path)),
    volumeGroup: groupFor(scratch, [disk('group')]),
  });
}

function blank(...names: readonly string[]): void {
  for (const name of names) blankDisk(disk(name));
}

async function generationOf(node: MovingNode, id: VolumeId): Promise<number | undefined> {
  const { pool } = await node.pools.require(id);
  return (await pool.moves?.stateOf(id))?.mark.generation;
}

describe('a move of a volume that is a disk, or becomes one', () => {
  for (const encryption of [undefined, 'luks2'] as const) {
    test(`from images to a disk, another disk, a volume group, and back: ${encryption ?? 'not encrypted'}, with a restart`, async () => {
      blank('usual', 'victim');
      using scratch = new Scratch('move');
      const spec = { ...volumeSpec('moved', { sizeBytes: 40n * mib }), encryption };
      const { id } = spec;
      const content = randomBytes(10 << 20);
      {
        await using node = await openNode(scratch);
        const images = node.pools.get('images');
        await images.create(spec);
        await using mounted = await mountedDevice(images, id, scratch);
        writeFileSync(join(mounted.path, 'file'), content, { flush: true });
      }
      const sizeBytes = encryption === undefined ? dataBytes : dataBytes - 16n * mib;
      for (const [at, to] of ['one', 'two', 'group', 'one', 'images', 'two'].entries()) {
        await using node = await openNode(scratch);
        const from = await node.placeOf(id);
        if (at > 0 && from !== 'images') assert.equal((await node.mover.plan(id, to)).isCopiedInUse, false);
        assert.equal((await node.mover.plan(id, to)).arrival.sizeBytes, sizeBytes);
        await node.move(id, to);
        const { pool, record } = await node.pools.require(id);
        assert.deepEqual([record.sizeBytes, record.encryption?.type], [sizeBytes, encryption]);
        assert.equal(await generationOf(node, id), at + 1);
        {
          await using mounted = await mountedDevice(pool, id, scratch);
          assert.ok(readFileSync(join(mounted.path, 'file')).equals(content), to);
        }
        await eventually(async () => assert.deepEqual(await pool.inUse(id), []));
        // The copy that was left cannot be used, and takes its disk until it is purged.
        const source = node.pools.get(from);
        const [left] = await source.trash();
        assert.equal(left?.record.id, id);
        assert.equal(Date.parse(left.purgeAt) - Date.parse(left.deletedAt), 7 * 86_400_000);
        assert.equal(await source.moves?.hasLeft(id), true);
        if (source.traits.isOneVolume) assert.equal((await source.capacity()).availableBytes, 0n);
        await node.purge(from);
      }
    });
  }

  test('has all bytes, zeros too, whatever the disk held before', async () => {
    blank('usual', 'victim');
    using scratch = new Scratch('move');
    await using node = await openNode(scratch);
    const images = node.pools.get('images');
    const one = node.pools.get('one');
    // A volume that is not wiped in the middle when it goes.
    const before = volumeSpec('before', { content: block, provisioning: 'thick', sizeBytes: dataBytes });
    await one.create(before);
    {
      await using device = await deviceOf(node, before.id);
      write(device.devicePath, randomBytes(Number(dataBytes)), 0n);
    }
    await one.modify(before.id, { undeleteSeconds: 0 });
    const spec = volumeSpec('data', { content: block, sizeBytes: dataBytes });
    const { id } = spec;
    await images.create(spec);
    let digest = '';
    {
      await using device = await deviceOf(node, id);
      write(device.devicePath, randomBytes(4096), 0n);
      write(device.devicePath, randomBytes(1 << 20), 33n * mib + 4096n);
      write(device.devicePath, randomBytes(4096), dataBytes - 4096n);
      digest = digestOf(device.devicePath);
    }
    await one.remove(before.id);
    await eventually(async () => assert.ok((await one.capacity()).availableBytes > 0n), 300_000);
    for (const to of ['one', 'two', 'images']) {
      await node.move(id, to);
      await using device = await deviceOf(node, id);
      assert.equal(digestOf(device.devicePath), digest, to);
    }
  });

  test('is refused, and nothing is changed, where the disk is too small, has other sectors, or is not empty', async () => {
    blank('usual', 'victim', 'small', 'large-sectors');
    using scratch = new Scratch('move');
    await using node = await openNode(scratch, { small: disk('small'), sectors: disk('large-sectors') });
    const images = node.pools.get('images');
    const one = node.pools.get('one');
    const spec = volumeSpec('data', { content: block });
    const { id } = spec;
    await images.create(spec);
    const refuses = async (to: string, reason: RegExp) => {
      await assert.rejects(node.mover.plan(id, to), reason);
      await assert.rejects(node.mover.start(id, to, undefined), reason);
      assert.equal(await node.placeOf(id), 'images');
      assert.deepEqual(await images.trash(), []);
      assert.equal((await images.moves?.stateOf(id))?.why, undefined);
      assert.equal(node.sight(id), undefined);
    };
    await refuses('small', /needs 67108864 bytes, and the pool's disk has 20971520 for its volume/);
    await refuses('sectors', /the pool's disks have sectors of 4096/);
    const other = volumeSpec('other', { content: block, provisioning: 'thick', sizeBytes: dataBytes });
    await one.create(other);
    await refuses('one', /pool one has its one volume already/);
    await one.remove(other.id);
    await refuses('one', /the deleted one can still be restored/);
    // What is in the trash is still whole.
    assert.equal((await one.restore(other.id)).id, other.id);
    await one.modify(other.id, { undeleteSeconds: 0 });
    await one.remove(other.id);
    await eventually(() => node.move(id, 'one'), 300_000);
    await assert.rejects(
      one.create(volumeSpec('next', { content: block, sizeBytes: dataBytes })),
      /one volume already/,
    );
  });

  test('is given up without a trace, begins again, and waits for its volume', async () => {
    blank('usual', 'victim');
    using scratch = new Scratch('move');
    await using node = await openNode(scratch);
    const [one, two] = [node.pools.get('one'), node.pools.get('two')];
    const spec = volumeSpec('data', { content: block, provisioning: 'thick', sizeBytes: dataBytes });
    const { id } = spec;
    await one.create(spec);
    let digest = '';
    {
      await using device = await deviceOf(node, id);
      write(device.devicePath, randomBytes(Number(dataBytes)), 0n);
      digest = digestOf(device.devicePath);
      await node.mover.start(id, 'two', undefined);
    }
    // Its device has gone: it is not in use, and the move has ended.
    await node.moved(id);
    await node.purge('one');
    await node.mover.start(id, 'one', mib);
    await eventually(() => assert.ok((node.sight(id)?.progress?.doneBytes ?? 0n) > 2n * mib));
    await assert.rejects(deviceOf(node, id), /is moving out of pool two/);
    await assert.rejects(one.create({ ...spec, id: volumeSpec('x').id }), /receives a volume that moves there/);
    await node.mover.cancel(id);
    assert.equal(await node.placeOf(id), 'two');
    {
      await using device = await deviceOf(node, id);
      assert.equal(digestOf(device.devicePath), digest);
    }
    await eventually(async () => assert.ok((await one.capacity()).availableBytes > 0n), 300_000);
    await node.move(id, 'one');
    await using device = await deviceOf(node, id);
    assert.equal(digestOf(device.devicePath), digest);
    assert.deepEqual(await two.list(undefined, undefined), []);
  });

  test('can be read twice at a time, as after a cut of the network, and is not in use by that', async () => {
    blank('usual', 'victim');
    using scratch = new Scratch('move');
    await using node = await openNode(scratch);
    const one = node.pools.get('one');
    const spec = volumeSpec('data', { content: block, provisioning: 'thick', sizeBytes: dataBytes });
    const { id } = spec;
    await one.create(spec);
    const moves = one.moves ?? assert.fail();
    const zeros = createHash('sha256')
      .update(Buffer.alloc(Number(dataBytes)))
      .digest('hex');
    await moves.close(id, { moveId: 'a move', fenceId: 'a fence' });
    {
      await using first = await moves.read(id);
      await using second = await moves.read(id);
      for (const each of [first, second]) assert.equal(await each.during(async (path) => digestOf(path)), zeros);
      assert.deepEqual(await one.inUse(id), []);
    }
    await moves.open(id, 'a move');
    await using _device = await deviceOf(node, id);
  });

  test('brings the copy back that was left, where the other disk is lost', async () => {
    blank('usual', 'victim');
    using scratch = new Scratch('move');
    const spec = volumeSpec('data', { content: block, provisioning: 'thick', sizeBytes: dataBytes });
    const { id } = spec;
    let digest = '';
    {
      await using node = await openNode(scratch);
      await node.pools.get('one').create(spec);
      {
        await using device = await deviceOf(node, id);
        write(device.devicePath, randomBytes(1 << 20), 0n);
        digest = digestOf(device.devicePath);
      }
      await node.move(id, 'two');
      const one = node.pools.get('one');
      // As a restore does that nothing takes back: the mark is still there, and says that it was handed over.
      await one.restore(id);
      assert.equal((await one.moves?.stateOf(id))?.why, 'given');
      await assert.rejects(one.attach(id, { persistent: false }), /was handed over by pool one/);
    }
    const scene = { directory: scratch.path, disks: new Map([['one', disk('usual')]]) };
    await using node = await MovingNode.open(scene);
    const one = node.pools.get('one');
    await assert.rejects(one.attach(id, { persistent: false }), /was handed over by pool one/);
    await one.moves?.takeBack(id);
    assert.equal((await one.moves?.stateOf(id))?.mark.generation, 2);
    await using device = await deviceOf(node, id);
    assert.equal(digestOf(device.devicePath), digest);
  });
});
