import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { controllerService } from '../../src/controller/service.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { MoveJob } from '../../src/move/job.ts';
import { Mover, type MoverOptions, type MoveSight } from '../../src/move/mover.ts';
import { switched } from '../../src/move/switched.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ResourceExhausted, Unavailable } from '../../src/volume/errors.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { type ImageTestOptions, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { movesOf } from './two-pools.ts';

const mib = 1n << 20n;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 96n * mib });
const { id } = spec;

type Times = Pick<MoverOptions, 'fenceTimeoutMs' | 'keepUpMs'>;

/** A node with a pool on XFS, which tells changed blocks, and one in a directory, which may not. */
class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;
  readonly objects = new ObjectQueue();

  private constructor(pools: Pools, scratch: Scratch, times: Times) {
    const queue = new DiskQueue('node', 2);
    this.pools = pools;
    this.mover = new Mover({
      pools,
      objects: this.objects,
      dataDirectory: scratch.join('data'),
      queue,
      log: quiet,
      ...times,
    });
  }

  /** DeleteVolume. */
  async delete(): Promise<void> {
    const { mover, objects, pools } = this;
    const controller = controllerService({
      ...{ nodeId: 'node', topology: undefined, pools, objects, moves: mover, maxVolumesPerNode: 0 },
      ...{ expansion: 'node', attach: 'none' },
    });
    const call = { deadline: undefined, note: () => undefined };
    await controller.DeleteVolume?.({ volume_id: id, secrets: {} }, call);
  }

  static async open(scratch: Scratch, options: ImageTestOptions = {}, times: Times = {}): Promise<Node> {
    const opener = (name: string, location: ImageTestOptions['location']) => (queue: DiskQueue) =>
      openTestPool(scratch, { ...options, name, queue, ...(location && { location }) });
    const pools = new Pools(
      new Map([
        ['xfs', opener('xfs', { type: 'file', path: scratch.join('xfs.img'), sizeBytes: 2n << 30n })],
        ['plain', opener('plain', { type: 'directory', path: scratch.join('plain') })],
      ]),
      'xfs',
    );
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = new Node(pools, scratch, times);
    await node.mover.resume();
    return node;
  }

  sight(): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  async ended(): Promise<MoveSight> {
    await eventually(() => {
      const { job, progress, trouble } = this.sight();
      assert.notEqual(job.state, 'running', `${progress?.phase} ${trouble}`);
    });
    return this.sight();
  }

  async where(): Promise<string> {
    return (await this.pools.require(id)).pool.name;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

/** Attached as a device, until it is disposed of. */
const device = (node: Node, volumeId: VolumeId = id) => deviceOf(node, volumeId);

async function digest(node: Node): Promise<string> {
  await using shown = await device(node);
  return digestOf(shown.devicePath);
}

function allocated(scratch: Scratch): bigint {
  const [path = ''] = execFileSync('find', [scratch.path, '-path', `*volumes/${id}/data`], { encoding: 'utf8' }).split(
    '\n',
  );
  return BigInt(statSync(path).blocks) * 512n;
}

/** A move into the other pool, whose disk is full once it has so many notes. */
async function failAfterNotes(node: Node, count: number, to = 'xfs'): Promise<MoveJob> {
  let notes = 0;
  const target = movesOf(node.pools.get(to));
  const receive = target.receive.bind(target);
  const broken = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
    const incoming = await receive(...args);
    const note = incoming.note.bind(incoming);
    incoming.note = async (text) => {
      if (++notes > count) throw new ResourceExhausted(`pool ${to} is full.`);
      return note(text);
    };
    return incoming;
  });
  await node.mover.start(id, to, undefined);
  const { job } = await node.ended();
  assert.deepEqual([job.state, job.reason], ['failed', `pool ${to} is full.`]);
  broken.mock.restore();
  return job;
}

/** Called once, when the next volume has been committed where it goes. */
let onSwitch: (() => void) | undefined;
switched.subscribe(() => {
  onSwitch?.();
  onSwitch = undefined;
});

describe('a move between two pools of a node', () => {
  test('of a volume that is not in use, there and back: the same bytes, and holes stay holes', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create(spec);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(3 << 20), 5n * mib);
      write(shown.devicePath, randomBytes(4096), 95n * mib);
    }
    const before = await digest(node);
    for (const to of ['xfs', 'plain', 'xfs']) {
      await node.mover.start(id, to, undefined);
      const { job } = await node.ended();
      assert.deepEqual([job.state, job.reason], ['done', undefined]);
      assert.equal(await node.where(), to);
      assert.equal(await digest(node), before);
      assert.ok(allocated(scratch) < 6n * mib, `${allocated(scratch)} bytes are allocated`);
    }
    assert.deepEqual(
      (await node.pools.get('xfs').listSnapshots(undefined, undefined)).map(({ name }) => name),
      [],
    );
  });

  test('of a volume in use, whose changes are copied while it is written to; it ends once it is idle', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('xfs').create(spec);
    let before: string;
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(40 << 20), 0n);
      const plan = await node.mover.plan(id, 'plain');
      assert.deepEqual([plan.isInUse, plan.isCopiedInUse, plan.snapshots], [true, true, 0]);
      await node.mover.start(id, 'plain', undefined);
      write(shown.devicePath, randomBytes(8 << 20), 20n * mib);
      await eventually(async () => assert.equal(node.sight().progress?.phase, 'waiting'));
      write(shown.devicePath, randomBytes(8 << 20), 60n * mib);
      write(shown.devicePath, Buffer.alloc(4 << 20), 4n * mib);
      before = createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex');
      assert.equal(await node.where(), 'xfs');
    }
    assert.equal((await node.ended()).job.state, 'done');
    assert.equal(await node.where(), 'plain');
    assert.equal(await digest(node), before);
    // All of the first round, and the changes. A file in many pieces takes a block for their places, too.
    const takenBytes = allocated(scratch);
    assert.ok(takenBytes >= 44n * mib && takenBytes < 45n * mib, `${takenBytes} bytes`);
  });

  test('of a volume that has waited in use copies its changes once more before the fence', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch, {}, { keepUpMs: 700 });
    const xfs = node.pools.get('xfs');
    await xfs.create(spec);
    const take = xfs.takeSnapshots.bind(xfs);
    const snapshots: string[] = [];
    let isUsed = true;
    let lastMs = 0;
    mock.method(xfs, 'takeSnapshots', async (...args: Parameters<typeof take>) => {
      const { why } = await movesOf(xfs).stateOf(id);
      lastMs = performance.now();
      snapshots.push(`${isUsed ? 'used' : 'idle'} ${why ?? 'open'}`);
      return take(...args);
    });
    // Not in use any more once a round after its second one is worth it.
    mock.method(xfs, 'inUse', async () => {
      if (snapshots.length > 1 && performance.now() - lastMs > 750) isUsed = false;
      return isUsed ? ['a pod'] : [];
    });
    await node.mover.start(id, 'plain', undefined);
    assert.equal((await node.ended()).job.state, 'done');
    assert.deepEqual(snapshots, ['used open', 'used open', 'idle open', 'idle closed']);
  });

  test('of a volume that is made thick meanwhile takes all of its blocks', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const xfs = node.pools.get('xfs');
    await xfs.create(spec);
    let before: string;
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(8 << 20), 0n);
      await node.mover.start(id, 'plain', undefined);
      await eventually(() => assert.equal(node.sight().progress?.phase, 'waiting'));
      await xfs.modify(id, { provisioning: 'thick' });
      before = createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex');
    }
    assert.equal((await node.ended()).job.state, 'done');
    const { pool, record } = await node.pools.require(id);
    assert.deepEqual([pool.name, record.provisioning], ['plain', 'thick']);
    assert.ok(allocated(scratch) >= spec.sizeBytes, `${allocated(scratch)} bytes are allocated`);
    assert.equal(await digest(node), before);
  });

  test('that is cancelled leaves the volume where it is, and nothing of the copy', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('xfs').create(spec);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(8 << 20), 0n);
      await node.mover.start(id, 'plain', undefined);
      await assert.rejects(node.mover.start(id, 'plain', 5n), /is moving to pool plain already/);
      await assert.rejects(node.mover.plan(id, 'plain'), /is moving to pool plain already/);
      await eventually(async () => assert.equal(node.sight().progress?.phase, 'waiting'));
      await node.mover.cancel(id);
      assert.equal(node.sight().job.state, 'cancelled');
      await assert.rejects(node.mover.cancel(id), { name: 'NotFound' });
    }
    await using _shown = await device(node);
    assert.equal(await node.where(), 'xfs');
    assert.deepEqual(await node.pools.get('xfs').listSnapshots(undefined, undefined), []);
    assert.deepEqual(readdirSync(scratch.join('plain', 'tmp')), []);
  });

  test('that fails leaves the volume in use where it is, and goes on where it was when it is ordered again', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create(spec);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(80 << 20), 0n);
    }
    const before = await digest(node);
    const { moveId } = await failAfterNotes(node, 3);
    assert.equal(await digest(node), before);
    await node.mover.start(id, 'xfs', undefined);
    assert.equal((await node.ended()).job.state, 'done');
    assert.equal(node.sight().job.moveId, moveId);
    assert.equal(await digest(node), before);
  });

  test('that fails, and is written to before it is ordered again, has all of it', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create(spec);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(80 << 20), 0n);
    }
    await failAfterNotes(node, 3);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(1 << 20), 0n);
    }
    const before = await digest(node);
    await node.mover.start(id, 'xfs', undefined);
    assert.equal((await node.ended()).job.state, 'done');
    assert.equal(await digest(node), before);
  });

  for (const [from, to] of [
    ['plain', 'xfs'],
    ['xfs', 'plain'],
  ] as const) {
    const title =
      from === 'plain'
        ? 'that fails before its first bytes are noted'
        : 'whose snapshot is gone when it is ordered again';
    test(`${title}: no old byte is left where the volume has zeros`, async () => {
      using scratch = new Scratch('move');
      await using node = await Node.open(scratch);
      const pool = node.pools.get(from);
      await pool.create(spec);
      {
        await using shown = await device(node);
        write(shown.devicePath, randomBytes(8 << 20), 0n);
      }
      await failAfterNotes(node, 2, to);
      for (const snapshot of await pool.listSnapshots(undefined, undefined)) await pool.removeSnapshot(snapshot.id);
      {
        await using shown = await device(node);
        write(shown.devicePath, Buffer.alloc(4 << 20), mib);
      }
      const before = await digest(node);
      await node.mover.start(id, to, undefined);
      assert.equal((await node.ended()).job.state, 'done');
      assert.equal(await digest(node), before);
    });
  }

  test('whose first note fails holds no space', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create(spec);
    const target = node.pools.get('xfs');
    const { availableBytes } = await target.capacity();
    await failAfterNotes(node, 0);
    await node.mover.cancel(id);
    await eventually(async () => assert.equal((await target.capacity()).availableBytes, availableBytes));
  });

  test('out of a pool without room for a snapshot is made while the volume is not in use', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const xfs = node.pools.get('xfs');
    await xfs.create(spec);
    const take = xfs.takeSnapshots.bind(xfs);
    let taken = 0;
    // The first one fits.
    mock.method(xfs, 'takeSnapshots', async (...args: Parameters<typeof take>) => {
      if (++taken > 1) throw new ResourceExhausted('pool xfs is full.');
      return take(...args);
    });
    let before: string;
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(70 << 20), 0n);
      await node.mover.start(id, 'plain', undefined);
      await eventually(() => assert.equal(node.sight().progress?.phase, 'waiting'));
      write(shown.devicePath, randomBytes(1 << 20), 90n * mib);
      // A hole where the first round has copied data.
      execFileSync('blkdiscard', ['--offset', '0', '--length', `${4n * mib}`, shown.devicePath]);
      before = createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex');
    }
    const { job } = await node.ended();
    assert.deepEqual([job.state, job.reason], ['done', undefined]);
    assert.equal(taken, 2);
    assert.equal(await digest(node), before);
    assert.deepEqual(await xfs.listSnapshots(undefined, undefined), []);
  });

  test('of which the node knows nothing any more is ended, and the volume can be used again', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const pool = node.pools.get('plain');
    await pool.create(spec);
    await assert.rejects(node.mover.cancel(id), /is not moving/);
    const fence = { moveId: 'lost', fenceId: 'fence' };
    await movesOf(pool).close(id, fence);
    await assert.rejects(device(node), /is moving out of pool plain/);
    await node.mover.cancel(id);
    await digest(node);
    await movesOf(pool).close(id, fence);
    await movesOf(pool).give(id, fence);
    await assert.rejects(device(node), /was handed over/);
    await assert.rejects(node.mover.cancel(id), /may have come to another pool of this node/);
    await node.mover.cancel(id, undefined, undefined, true);
    await digest(node);
    assert.deepEqual((await movesOf(pool).stateOf(id)).mark, { generation: 2 });
    // Its target has it: the copy that was left goes to the trash.
    const other = movesOf(node.pools.get('xfs'));
    const record = await other.recordFor((await node.pools.require(id)).record);
    await movesOf(pool).close(id, fence);
    {
      await using incoming = await other.receive(record, 'lost');
      await incoming.commit(record, {
        mark: { moveId: 'lost', readUnder: 'fence' },
        answer: await movesOf(pool).give(id, fence),
        from: undefined,
      });
    }
    assert.equal(await node.where(), 'xfs');
    await node.mover.cancel(id);
    assert.equal(await pool.find(id), undefined);
    assert.equal(await node.where(), 'xfs');
    await assert.rejects(node.mover.cancel(id), /is not moving/);
  });

  test('of a volume that is deleted meanwhile fails, and leaves nothing', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const xfs = node.pools.get('xfs');
    await xfs.create(spec);
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(8 << 20), 0n);
    }
    await node.mover.start(id, 'plain', 1n << 20n);
    await eventually(() => assert.equal(node.sight().progress?.round, 1));
    await xfs.remove(id);
    const { job } = await node.ended();
    assert.deepEqual([job.state, /no volume|any more|is gone/.test(job.reason ?? '')], ['failed', true]);
    assert.deepEqual(await xfs.listSnapshots(undefined, undefined), []);
    assert.deepEqual(readdirSync(scratch.join('plain', 'tmp')), []);
    assert.equal(await node.pools.find(id), undefined);
  });

  test('of a volume that DeleteVolume removes leaves nothing when that has its answer', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const xfs = node.pools.get('xfs');
    for (const isRunning of [true, false]) {
      await xfs.create(spec);
      {
        await using shown = await device(node);
        write(shown.devicePath, randomBytes(8 << 20), 0n);
      }
      if (isRunning) {
        await node.mover.start(id, 'plain', 1n << 20n);
        await eventually(() => assert.equal(node.sight().progress?.round, 1));
      } else {
        await failAfterNotes(node, 2, 'plain');
      }
      await node.delete();
      assert.deepEqual(await xfs.listSnapshots(undefined, undefined), []);
      assert.deepEqual(readdirSync(scratch.join('plain', 'tmp')), []);
      const { job } = node.sight();
      assert.deepEqual([job.state, job.reason], ['failed', 'the volume was deleted.']);
      await node.mover.cancel(id);
    }
  });

  test('never copies again a volume that was handed over, and deleted in its new pool', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const plain = node.pools.get('plain');
    await plain.create(spec);
    const before = await digest(node);
    const broken = mock.method(movesOf(plain), 'settle', async () => {
      throw new Unavailable('the disk is read-only.');
    });
    await node.mover.start(id, 'xfs', undefined);
    await eventually(() => assert.equal(node.sight().trouble, 'the disk is read-only.'));
    // The copy that was handed over would be the last one.
    await assert.rejects(node.delete(), /read-only/);
    assert.equal(await node.where(), 'xfs');
    await node.pools.get('xfs').remove(id);
    broken.mock.restore();
    const { job } = await node.ended();
    assert.equal(job.state, 'failed');
    assert.match(job.reason ?? '', /had come to pool xfs at 20.*holdfast move cancel/);
    assert.equal(await node.pools.get('xfs').find(id), undefined);
    await assert.rejects(digest(node), /was handed over/);
    await assert.rejects(node.mover.cancel(id), /has come to pool xfs at 20/);
    await node.mover.cancel(id, undefined, undefined, true);
    assert.equal(await digest(node), before);
  });

  test('that waits for its end takes the left copy along when the volume is deleted', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const plain = node.pools.get('plain');
    await plain.create(spec);
    const broken = mock.method(movesOf(plain), 'settle', async () => {
      throw new Unavailable('the disk is read-only.');
    });
    await node.mover.start(id, 'xfs', undefined);
    await eventually(() => assert.equal(node.sight().trouble, 'the disk is read-only.'));
    broken.mock.restore();
    await node.delete();
    assert.equal(await node.pools.find(id), undefined);
    assert.equal(node.sight().job.state, 'failed');
  });

  for (const when of ['before the switch', 'after it']) {
    test(`goes on in memory while its end cannot be noted, from a moment ${when} on`, async () => {
      using scratch = new Scratch('move');
      await using node = await Node.open(scratch);
      await node.pools.get('xfs').create(spec);
      const notes = scratch.join('data', 'moves');
      const breakNotes = () => {
        renameSync(notes, `${notes}.away`);
        writeFileSync(notes, '');
      };
      {
        await using _shown = await device(node);
        await node.mover.start(id, 'plain', undefined);
        await eventually(() => assert.equal(node.sight().progress?.phase, 'waiting'));
        if (when === 'before the switch') breakNotes();
        else onSwitch = breakNotes;
      }
      await eventually(() => assert.match(node.sight().trouble ?? '', /its end cannot be noted/));
      // Without a note of the copy nothing is handed over: the volume stays usable where it is.
      assert.equal(await node.where(), when === 'before the switch' ? 'xfs' : 'plain');
      unlinkSync(notes);
      renameSync(`${notes}.away`, notes);
      assert.equal((await node.ended()).job.state, when === 'before the switch' ? 'failed' : 'done');
    });
  }

  test('whose target does not answer ends the fence, and goes on when it does', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch, {}, { fenceTimeoutMs: 0 });
    await node.pools.get('plain').create(spec);
    const target = movesOf(node.pools.get('xfs'));
    const receive = target.receive.bind(target);
    let notes = 0;
    const broken = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      const note = incoming.note.bind(incoming);
      incoming.note = async (text) => {
        if (++notes > 2) throw new Unavailable('pool xfs is in quarantine.');
        return note(text);
      };
      return incoming;
    });
    await node.mover.start(id, 'xfs', undefined);
    await eventually(() => assert.equal(node.sight().trouble, 'pool xfs is in quarantine.'));
    await eventually(async () => assert.equal((await movesOf(node.pools.get('plain')).stateOf(id)).why, undefined));
    assert.equal(node.sight().progress?.phase, 'switching');
    const timers = mock.method(globalThis, 'setTimeout');
    // A pod need not wait for what is there.
    await node.mover.arrival(id);
    assert.ok(timers.mock.calls.every(({ arguments: [, ms] }) => ms !== 8_000));
    timers.mock.restore();
    broken.mock.restore();
    let before = '';
    await eventually(async () => {
      before = await digest(node);
    });
    assert.equal(await node.where(), 'plain');
    assert.equal((await node.ended()).job.state, 'done');
    assert.equal(await digest(node), before);
  });

  test('is not begun where the volume cannot be', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create({ ...spec, sizeBytes: 3n << 30n });
    await assert.rejects(node.mover.start(id, 'xfs', undefined), /does not fit into pool xfs/);
    await assert.rejects(node.mover.start(id, 'plain', undefined), /is in pool plain already/);
    await assert.rejects(node.mover.start(id, 'other', undefined), /There is no pool 'other'/);
    assert.deepEqual(node.mover.sights(), []);
  });

  test('of a volume that grows meanwhile, and whose own snapshots stay', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const xfs = node.pools.get('xfs');
    await xfs.create(spec);
    const snapshotId = snapshotIdFor('node', 'kept');
    await xfs.takeSnapshots([{ id: snapshotId, name: 'kept', sourceId: id, parameters: {} }]);
    let before: string;
    {
      await using shown = await device(node);
      write(shown.devicePath, randomBytes(8 << 20), 0n);
      await node.mover.start(id, 'plain', undefined);
      await eventually(async () => assert.equal(node.sight().progress?.phase, 'waiting'));
      await xfs.grow(id, 160n * mib);
      write(shown.devicePath, randomBytes(1 << 20), 150n * mib);
      before = createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex');
    }
    assert.equal((await node.ended()).job.state, 'done');
    const { record } = await node.pools.require(id);
    assert.equal(record.sizeBytes, 160n * mib);
    assert.equal(await digest(node), before);
    assert.deepEqual(
      (await xfs.listSnapshots(undefined, undefined)).map((each) => each.id),
      [snapshotId],
    );
  });

  test('of which only a copy in the trash is left: that is the volume again', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const admin = adminService({ nodeId: 'node', pools: node.pools, objects: new ObjectQueue(), mover: node.mover });
    const call = { note: () => undefined };
    await node.pools.get('plain').create(spec);
    const before = await digest(node);
    await node.mover.start(id, 'xfs', undefined);
    assert.equal((await node.ended()).job.state, 'done');
    await assert.rejects(admin.restore({ id }, call), /exists: there is nothing to restore/);
    await node.pools.get('xfs').remove(id);
    assert.deepEqual(await node.pools.find(id), undefined);
    await assert.rejects(admin.restore({ id }, call), /was deleted then.* --even-so\.$/);
    assert.equal((await admin.restore({ id, evenSo: true }, call)).pool, 'plain');
    assert.equal(await digest(node), before);
    assert.equal(await node.where(), 'plain');
  });

  test('of which an older copy is not restored while the pool with the later one is not open', async () => {
    using scratch = new Scratch('move');
    await using node = await Node.open(scratch);
    const admin = adminService({ nodeId: 'node', pools: node.pools, objects: new ObjectQueue(), mover: node.mover });
    const call = { note() {} };
    await node.pools.get('plain').create({ ...spec, undeleteSeconds: 3600 });
    await node.mover.start(id, 'xfs', undefined);
    assert.equal((await node.ended()).job.state, 'done');
    await node.pools.get('xfs').remove(id);
    const plain = node.pools.get('plain');
    // As in quarantine.
    const sick = mock.method(node.pools, 'all', () => [plain]);
    await assert.rejects(admin.restore({ id }, call), {
      name: 'Unavailable',
      message:
        /has moved out of pool plain since this copy of it, and pool xfs, which is not open, may have a later one/,
    });
    sick.mock.restore();
    assert.equal((await admin.restore({ id }, call)).pool, 'xfs');
  });
});
