/**
 * Runs in the virtual machine: volumes that move between images and logical volumes, thin or not, encrypted or not.
 * node move-in-guest.ts DIRECTORY DISK [thin]
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { adminService } from '../../../src/admin/service.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../../src/move/mover.ts';
import { Pools } from '../../../src/pool/pools.ts';
import { ObjectQueue } from '../../../src/volume/flow/object-queue.ts';
import { snapshotIdFor, type VolumeId } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments } from '../../support/lvm-pool.ts';
import { mountedDevice } from '../../support/mounted-volume.ts';
import { quiet } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';
import { openIn, openLvmWithLayer } from './encrypted-pool.ts';

const [, , directory = ''] = process.argv;
const { disks, options } = guestArguments();
const isThin = options.thinPool !== undefined;

class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;
  readonly #objects: ObjectQueue;

  private constructor(pools: Pools, mover: Mover, objects: ObjectQueue) {
    this.pools = pools;
    this.mover = mover;
    this.#objects = objects;
  }

  /** @param nodeName another one: it has its own images and notes, and the disk of the group */
  static async open(scratch: Scratch, nodeName = 'node'): Promise<Node> {
    const dataDirectory = scratch.join(nodeName === 'node' ? 'data' : `data-${nodeName}`);
    const common = { nodeName, dataDirectory };
    const images = join(directory, nodeName === 'node' ? 'move' : `move-${nodeName}`);
    const pools = new Pools(
      new Map([
        [
          'images',
          (queue: DiskQueue) => openIn(images, scratch, { ...common, name: 'images', queue, undeleteSeconds: 60 }),
        ],
        [
          'group',
          (queue: DiskQueue) =>
            openLvmWithLayer(scratch, groupFor(scratch, disks), { ...options, ...common, name: 'group', queue }),
        ],
      ]),
      'images',
    );
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const queue = new DiskQueue('node', 2);
    const objects = new ObjectQueue();
    const mover = new Mover({ pools, objects, dataDirectory, queue, movesSnapshots: true, log: quiet });
    await mover.resume();
    return new Node(pools, mover, objects);
  }

  async restore(id: VolumeId, lostNode?: string): Promise<void> {
    const { mover, pools } = this;
    const admin = adminService({ mover, nodeId: 'node', pools, objects: this.#objects });
    await admin.restore({ id, lostNode }, { note: () => undefined });
  }

  sight(id: VolumeId): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  async move(id: VolumeId, to: string): Promise<void> {
    await this.mover.start(id, to, undefined);
    await eventually(() => assert.notEqual(this.sight(id).job.state, 'running', String(this.sight(id).trouble)));
    const { job } = this.sight(id);
    assert.deepEqual([job.state, job.reason], ['done', undefined]);
    assert.equal((await this.pools.require(id)).pool.name, to);
  }

  /** The snapshots of a volume follow it to the pool where it is. */
  async follow(id: VolumeId, to: string): Promise<void> {
    await this.mover.start(id, to, undefined, true);
    await eventually(() =>
      assert.notEqual(
        this.sight(id).snapshots?.job.state ?? 'running',
        'running',
        `${this.sight(id).snapshots?.trouble}`,
      ),
    );
    const { state, snapshots } = this.sight(id).snapshots?.job ?? assert.fail();
    assert.deepEqual([state, snapshots.left], ['done', []]);
  }

  async usedBytes(name: string): Promise<bigint> {
    const { disk } = await this.pools.get(name).usage();
    return disk.diskBytes - disk.freeBytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

describe(`a move between images and ${isThin ? 'thin ' : ''}logical volumes`, () => {
  for (const encryption of [undefined, 'luks2'] as const) {
    test(`there and back, ${encryption ?? 'not encrypted'}, also after a restart`, async () => {
      using scratch = new Scratch('move');
      const spec = { ...volumeSpec(`moved ${encryption}`), encryption };
      const { id } = spec;
      const content = randomBytes(20 << 20);
      {
        await using node = await Node.open(scratch);
        const images = node.pools.get('images');
        await images.create(spec);
        {
          await using mounted = await mountedDevice(images, id, scratch);
          writeFileSync(join(mounted.path, 'file'), content);
        }
        await node.move(id, 'group');
        // Its mark stays with it when its record is written.
        await node.pools.get('group').grow(id, 128n << 20n);
      }
      await using node = await Node.open(scratch);
      for (const to of [undefined, 'images', 'group']) {
        if (to !== undefined) await node.move(id, to);
        const { pool, record } = await node.pools.require(id);
        assert.equal(record.encryption?.type, encryption);
        await using mounted = await mountedDevice(pool, id, scratch);
        assert.ok(readFileSync(join(mounted.path, 'file')).equals(content), `${to}`);
      }
      assert.equal((await node.pools.get('group').moves?.stateOf(id))?.mark.generation, 3);
      await eventually(async () => assert.deepEqual(await node.pools.get('group').inUse(id), []));
      await node.pools.get('group').remove(id);
    });
  }

  for (const encryption of [undefined, 'luks2'] as const) {
    test(`with snapshots, ${encryption ?? 'not encrypted'}: they follow the volume while it is in use, and share its blocks`, async () => {
      using scratch = new Scratch('move');
      await using node = await Node.open(scratch);
      const spec = { ...volumeSpec(`followed ${encryption}`), encryption };
      const { id } = spec;
      const images = node.pools.get('images');
      await images.create(spec);
      const contents = new Map<string, Buffer>();
      for (const name of ['older', 'newer']) {
        await using mounted = await mountedDevice(images, id, scratch);
        const content = randomBytes(name === 'older' ? 20 << 20 : 2 << 20);
        writeFileSync(join(mounted.path, name), content, { flush: true });
        contents.set(name, content);
        const snapshotId = snapshotIdFor('node', `${name} ${encryption}`);
        await images.takeSnapshots([{ id: snapshotId, name, sourceId: id, parameters: {} }]);
      }
      if (!isThin) {
        await assert.rejects(node.mover.start(id, 'group', undefined, true), /blocks cannot be shared there/);
        await images.remove(id);
        return;
      }
      await node.move(id, 'group');
      const before = await node.usedBytes('group');
      {
        await using mounted = await mountedDevice(node.pools.get('group'), id, scratch);
        await node.follow(id, 'group');
        assert.ok(readFileSync(join(mounted.path, 'older')).equals(contents.get('older') ?? assert.fail()));
      }
      const takenBytes = (await node.usedBytes('group')) - before;
      assert.ok(takenBytes < 12n << 20n, `${takenBytes} bytes are taken`);
      for (const to of ['group', 'images']) {
        if (to === 'images') {
          await node.move(id, to);
          await node.follow(id, to);
        }
        const pool = node.pools.get(to);
        const listed = await pool.listSnapshots(undefined, undefined, id);
        assert.deepEqual(listed.map(({ name }) => name).sort(), ['newer', 'older']);
        for (const { id: snapshotId, name } of listed) {
          const copy = { ...volumeSpec(`${to} ${name} ${encryption}`), encryption };
          await pool.create(copy, { type: 'snapshot', id: snapshotId });
          {
            await using mounted = await mountedDevice(pool, copy.id, scratch);
            assert.ok(readFileSync(join(mounted.path, 'older')).equals(contents.get('older') ?? assert.fail()));
            assert.equal(existsSync(join(mounted.path, 'newer')), name === 'newer');
          }
          await eventually(async () => assert.deepEqual(await pool.inUse(copy.id), []));
          await pool.remove(copy.id);
        }
      }
      for (const { id: snapshotId } of await images.listSnapshots(undefined, undefined, id)) {
        await images.removeSnapshot(snapshotId);
      }
      assert.deepEqual(await node.pools.get('group').listSnapshots(undefined, undefined), []);
      await images.remove(id);
    });
  }

  for (const encryption of [undefined, 'luks2'] as const) {
    test(`leaves a copy, ${encryption ?? 'not encrypted'}, that is no volume unasked where the disk is put into another node`, async () => {
      using scratch = new Scratch('move');
      const spec = { ...volumeSpec(`left ${encryption}`), encryption };
      const { id } = spec;
      const content = randomBytes(4 << 20);
      {
        await using node = await Node.open(scratch);
        const group = node.pools.get('group');
        await group.create(spec);
        {
          await using mounted = await mountedDevice(group, id, scratch);
          writeFileSync(join(mounted.path, 'file'), content);
        }
        await node.move(id, 'images');
      }
      await using node = await Node.open(scratch, 'another');
      for (const lost of [undefined, 'another']) {
        await assert.rejects(node.restore(id, lost), /may be on node node: .* --node-is-lost node\.$/);
      }
      await node.restore(id, 'node');
      const group = node.pools.get('group');
      {
        await using mounted = await mountedDevice(group, id, scratch);
        assert.ok(readFileSync(join(mounted.path, 'file')).equals(content));
      }
      await eventually(async () => assert.deepEqual(await group.inUse(id), []));
      await group.remove(id);
    });
  }

  test('of a volume in use is finished once it is not, and is cancelled without a trace', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const group = node.pools.get('group');
    const spec = volumeSpec('in use');
    const { id } = spec;
    await group.create(spec);
    const [before, after] = [randomBytes(8 << 20), randomBytes(8 << 20)];
    {
      await using mounted = await mountedDevice(group, id, scratch);
      writeFileSync(join(mounted.path, 'before'), before, { flush: true });
      assert.equal((await node.mover.plan(id, 'images')).isCopiedInUse, isThin);
      await node.mover.start(id, 'images', undefined);
      await eventually(() => assert.equal(node.sight(id).progress?.phase, 'waiting'));
      await node.mover.cancel(id);
      assert.deepEqual(await group.listSnapshots(undefined, undefined), []);
      await node.mover.start(id, 'images', undefined);
      await eventually(() => assert.equal(node.sight(id).progress?.phase, 'waiting'));
      writeFileSync(join(mounted.path, 'after'), after, { flush: true });
    }
    await eventually(() => assert.equal(node.sight(id).job.state, 'done', String(node.sight(id).trouble)));
    const { pool } = await node.pools.require(id);
    assert.equal(pool.name, 'images');
    await using mounted = await mountedDevice(pool, id, scratch);
    assert.ok(readFileSync(join(mounted.path, 'before')).equals(before));
    assert.ok(readFileSync(join(mounted.path, 'after')).equals(after));
  });
});
