import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Pools } from '../../src/pool/pools.ts';
import { moveMarkName } from '../../src/pool/records/move-marks.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { holdfast } from '../support/command.ts';
import { openTestDirectories } from '../support/directory-pool.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { TestVolume } from '../support/life.ts';
import { LoopDisk, openLoopDisk } from '../support/loop-disk-pool.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { call } from './following-node.ts';
import { movesOf } from './two-pools.ts';

type Kind = 'directory' | 'disk' | 'image';

interface Opened {
  readonly name: string;
  readonly queue: DiskQueue;
  readonly nodeName: string;
  readonly dataDirectory: string;
}

/** The pool on that disk, which any node may have. */
function open(scratch: Scratch, kind: Kind, disk: string, common: Opened): Promise<Catalog> {
  switch (kind) {
    case 'directory':
      return openTestDirectories(scratch, { ...common, path: scratch.join(disk) });
    case 'disk':
      return openLoopDisk(scratch, new LoopDisk(scratch, disk), common);
    case 'image': {
      const location = { type: 'file', path: scratch.join(`${disk}.img`), sizeBytes: 1n << 30n } as const;
      return openTestPool(scratch, { ...common, location });
    }
  }
}

interface NodeOptions {
  readonly kind: Kind;
  /** The disks that the node has. */
  readonly disks: readonly string[];
  /** The name under which it has its own disk. */
  readonly data?: string;
}

/** A node, with a pool on each of its disks. */
class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;
  readonly #name: string;
  readonly #objects = new ObjectQueue();

  private constructor(name: string, pools: Pools, dataDirectory: string) {
    this.#name = name;
    this.pools = pools;
    const shared = { pools, objects: this.#objects, queue: new DiskQueue(name, 2), log: quiet };
    this.mover = new Mover({ ...shared, dataDirectory, movesSnapshots: true });
  }

  static async open(scratch: Scratch, nodeName: string, { data = nodeName, disks, kind }: NodeOptions): Promise<Node> {
    const dataDirectory = scratch.join(`data-${data}`);
    const openers = disks.map((disk) => {
      const name = `${disk}-of-${data}`;
      return [name, (queue: DiskQueue) => open(scratch, kind, disk, { name, queue, nodeName, dataDirectory })] as const;
    });
    const pools = new Pools(new Map(openers), openers[0]?.[0] ?? assert.fail());
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = new Node(nodeName, pools, dataDirectory);
    await node.mover.resume();
    return node;
  }

  get admin() {
    return adminService({ mover: this.mover, nodeId: this.#name, pools: this.pools, objects: this.#objects });
  }

  sight(): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

const contents = { directory: 'directory', disk: 'block', image: 'block' } as const;
const specOf = (kind: Kind) => {
  const provisioning = kind === 'disk' ? 'thick' : 'thin';
  return volumeSpec('data', { content: { type: contents[kind] }, sizeBytes: 64n << 20n, provisioning });
};
const { id } = specOf('image');
const snapshotId = snapshotIdFor('node', 'first');

async function digest(node: Node): Promise<string> {
  const { pool, record } = await node.pools.require(id);
  if (record.content.type !== 'directory') {
    await using shown = await deviceOf(node, id);
    return digestOf(shown.devicePath);
  }
  await using directory = await movesOf(pool).read(id);
  return readFileSync(join(directory.path, 'file')).toString('hex');
}

async function fill(node: Node): Promise<void> {
  const { pool, record } = await node.pools.require(id);
  if (record.content.type !== 'directory') {
    await using shown = await deviceOf(node, id);
    return write(shown.devicePath, randomBytes(1 << 20), 1n << 20n);
  }
  await using directory = await movesOf(pool).read(id);
  writeFileSync(join(directory.path, 'file'), randomBytes(4096));
}

/**
 * A volume moves on node a, from disk one to disk two.
 * @param isSettled false: its copy on disk one is not in the trash yet
 * @returns its digest
 */
async function leave(scratch: Scratch, kind: Kind, isSettled: boolean): Promise<string> {
  await using node = await Node.open(scratch, 'a', { kind, disks: ['one', 'two'] });
  await node.pools.get('one-of-a').create(specOf(kind));
  await fill(node);
  const before = await digest(node);
  if (!isSettled) {
    mock.method(movesOf(node.pools.get('one-of-a')), 'settle', async () => {
      throw new Unavailable('disk one does not answer.');
    });
  }
  await node.mover.start(id, 'two-of-a', undefined);
  await eventually(() => {
    const { job, trouble } = node.sight();
    if (isSettled) assert.equal(job.state, 'done', `${trouble}`);
    else assert.equal(trouble, 'disk one does not answer.');
  });
  return before;
}

const onNode = (node: string) =>
  new RegExp(
    `, and may be on node ${node}(: restore it there\\. If that node is there, and .* --pool-is-lost POOL)?\\. If that node will never come back, or is this one under another name: --node-is-lost ${node}\\.$`,
  );

describe('a disk with a copy that a move between pools has left, in another node', () => {
  for (const kind of ['image', 'directory', 'disk'] as const) {
    for (const isSettled of [true, false]) {
      const what = `${kind}, ${isSettled ? 'in the trash' : 'not in the trash yet'}`;
      test(`has no volume that is used there unasked (${what})`, async () => {
        using scratch = new Scratch('other-node');
        const before = await leave(scratch, kind, isSettled);
        {
          await using first = await Node.open(scratch, 'a', { kind, disks: ['two'] });
          assert.equal(await digest(first), before);
        }
        await using node = await Node.open(scratch, 'b', { kind, disks: ['own', 'one'] });
        const takeBack = (lostNode?: string) =>
          isSettled ? node.admin.restore({ id, lostNode }, call) : node.admin.cancelMove({ id, lostNode }, call);
        for (const lost of [undefined, 'b', 'c']) {
          await assert.rejects(takeBack(lost), { name: 'FailedPrecondition', message: onNode('a') });
        }
        const isThere = (await node.pools.find(id)) !== undefined;
        assert.equal(isThere, !isSettled);
        if (isThere) {
          const { pool } = await node.pools.require(id);
          await assert.rejects(pool.attach(id, { persistent: false }), /was handed over by pool one-of-b/);
        }
        await takeBack('a');
        assert.equal(await digest(node), before);
        // Later than all that node a may have made of it.
        const { generation } = (await movesOf(node.pools.get('one-of-b')).stateOf(id)).mark;
        assert.ok(generation > 100_000, `${generation}`);
      });
    }
  }

  test('has the volume again by a second word alone if its driver did not name its node yet', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'directory', false);
    const path = scratch.join('one', 'volumes', id, moveMarkName);
    const { fence, ...mark } = JSON.parse(readFileSync(path, 'utf8'));
    assert.equal(fence.by, 'a');
    const { by: _by, ...earlier } = fence;
    writeFileSync(path, JSON.stringify({ ...mark, fence: earlier }));
    await using node = await Node.open(scratch, 'b', { kind: 'directory', disks: ['own', 'one'] });
    await assert.rejects(node.admin.cancelMove({ id }, call), /may have come to another pool of this node/);
    await node.admin.cancelMove({ id, evenSo: true }, call);
    assert.equal(await digest(node), before);
  });

  test('has no snapshot that is used there unasked', async () => {
    using scratch = new Scratch('other-node');
    const options = { kind: 'image' } as const;
    let before: string;
    {
      await using node = await Node.open(scratch, 'a', { ...options, disks: ['one', 'two'] });
      await node.pools.get('one-of-a').create(specOf('image'));
      await fill(node);
      before = await digest(node);
      const spec = { id: snapshotId, name: 'first', sourceId: id, parameters: {} };
      await node.pools.get('one-of-a').takeSnapshots([spec]);
      mock.method(movesOf(node.pools.get('one-of-a')).snapshots, 'settle', async () => {
        throw new Unavailable('disk one does not answer.');
      });
      await node.mover.start(id, 'two-of-a', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'disk one does not answer.'));
    }
    await using node = await Node.open(scratch, 'b', { ...options, disks: ['own', 'one'] });
    const { snapshots } = movesOf(node.pools.get('one-of-b'));
    for (const lostNode of [undefined, 'c']) {
      await assert.rejects(node.admin.cancelMove({ id, lostNode }, call), onNode('a'));
      assert.equal(snapshots.isLeft(snapshotId), true);
      await assert.rejects(node.pools.findSnapshot(snapshotId), { name: 'Unavailable' });
    }
    await node.admin.cancelMove({ id, lostNode: 'a' }, call);
    assert.equal((await node.pools.findSnapshot(snapshotId))?.pool.name, 'one-of-b');
    await using bytes = await snapshots.read(snapshotId);
    assert.equal(digestOf(bytes.path), before);
  });
});

describe('a disk with the volume, in another node, whose first node has a copy that was left', () => {
  test('is not lost: that copy is restored only by the word that it is', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'image', true);
    {
      await using other = await Node.open(scratch, 'b', { kind: 'image', disks: ['two'] });
      assert.equal(await digest(other), before);
    }
    await using node = await Node.open(scratch, 'a', { kind: 'image', disks: ['one'] });
    for (const lostPool of [undefined, 'one-of-a', 'two-of-b']) {
      await assert.rejects(node.admin.restore({ id, lostPool }, call), {
        name: 'FailedPrecondition',
        message: /has moved to pool two-of-a since .* the volume in another node, .* --pool-is-lost two-of-a\.$/,
      });
      assert.equal(await node.pools.find(id), undefined);
    }
    await node.admin.restore({ id, lostPool: 'two-of-a' }, call);
    assert.equal(await digest(node), before);
  });

  test('is not lost, although another disk is in its pool', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'image', true);
    renameSync(scratch.join('two.img'), scratch.join('elsewhere.img'));
    // An operator has said that it begins empty.
    rmSync(scratch.join('data-a', 'pools', 'two-of-a.id'));
    await using node = await Node.open(scratch, 'a', { kind: 'image', disks: ['one', 'two'] });
    await assert.rejects(node.admin.restore({ id }, call), {
      name: 'FailedPrecondition',
      message: /has moved to pool two-of-a since .* and that has it no more: .* --pool-is-lost two-of-a\.$/,
    });
    assert.equal(await node.pools.find(id), undefined);
    await node.admin.restore({ id, lostPool: 'two-of-a' }, call);
    assert.equal(await digest(node), before);
  });

  test('is asked for by any name, if the node has forgotten the name of its pool', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'image', true);
    rmSync(scratch.join('data-a', 'moves'), { recursive: true });
    await using node = await Node.open(scratch, 'a', { kind: 'image', disks: ['one'] });
    await assert.rejects(node.admin.restore({ id }, call), /has moved to another pool .* --pool-is-lost POOL\.$/);
    await node.admin.restore({ id, lostPool: 'two' }, call);
    assert.equal(await digest(node), before);
  });

  test('is asked for, too, if the volume was deleted there, as the copy of the deletion may be in the trash there', async () => {
    using scratch = new Scratch('other-node');
    await leave(scratch, 'image', true);
    {
      await using node = await Node.open(scratch, 'a', { kind: 'image', disks: ['one', 'two'] });
      await node.pools.get('two-of-a').remove(id);
      await node.pools.get('two-of-a').purge(id);
    }
    await using node = await Node.open(scratch, 'a', { kind: 'image', disks: ['one'] });
    await assert.rejects(
      node.admin.restore({ id }, call),
      /or a later copy in its trash\. .* --pool-is-lost two-of-a\.$/,
    );
    await node.admin.restore({ id, lostPool: 'two-of-a' }, call);
    assert.equal((await node.pools.require(id)).pool.name, 'one-of-a');
  });
});

test('the pool that a volume has moved to is lost: the refusal names the word by which the copy that was left is the volume', async () => {
  using scratch = new Scratch('other-node');
  const pool = (name: string) => `  ${name}: { file: ${scratch.join(`${name}.img`)}, size: 1Gi }`;
  const optionsOf = (...names: readonly string[]) => ({
    config: ['defaultPool: one', 'pools:', ...names.map(pool), ''].join('\n'),
    environment: { HOLDFAST_NODE_ID: 'node-a' },
  });
  const both = optionsOf('one', 'two');
  {
    await using driver = await DriverProcess.start(scratch, both);
    using client = driver.connect();
    await new TestVolume(scratch, 'data').create(client);
    const moved = await holdfast(['move', 'data', '--to-pool', 'two', '--wait'], environmentFor(scratch, both));
    assert.equal(moved.code, 0, moved.stderr);
  }
  await using _driver = await DriverProcess.start(scratch, optionsOf('one'));
  const typed = (...words: string[]) => holdfast(words, environmentFor(scratch, optionsOf('one')));
  const refused = await typed('trash', 'restore', 'data');
  assert.equal(refused.code, 1);
  const [flag = ''] = /--pool-is-lost two(?=\.$)/m.exec(refused.stderr) ?? [];
  const taken = await typed('trash', 'restore', 'data', ...flag.split(' '));
  assert.equal(taken.code, 0, taken.stderr);
});

describe('a node that gets another name', () => {
  test('has its copies as before, as it has its notes', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'image', true);
    // Disk two is lost.
    await using node = await Node.open(scratch, 'renamed', { kind: 'image', disks: ['one'], data: 'a' });
    await node.admin.restore({ id, lostPool: 'two-of-a' }, call);
    assert.equal(await digest(node), before);
  });

  test('and has lost its notes, takes a copy back by the word that the node of the old name is lost', async () => {
    using scratch = new Scratch('other-node');
    const before = await leave(scratch, 'image', true);
    await using node = await Node.open(scratch, 'renamed', { kind: 'image', disks: ['one'] });
    await assert.rejects(node.admin.restore({ id }, call), onNode('a'));
    await node.admin.restore({ id, lostNode: 'a' }, call);
    assert.equal(await digest(node), before);
  });
});

test('what an operator types on the other node is refused, and taken with --node-is-lost', async () => {
  using scratch = new Scratch('other-node');
  using elsewhere = new Scratch('other-node');
  const pool = (name: string, disk: string) => `  ${name}: { file: ${scratch.join(`${disk}.img`)}, size: 1Gi }`;
  const optionsOf = (node: string, pools: readonly string[]) => ({
    config: ['defaultPool: one', 'pools:', ...pools, ''].join('\n'),
    environment: { HOLDFAST_NODE_ID: node },
  });
  const first = optionsOf('node-a', [pool('one', 'one'), pool('two', 'two')]);
  let volumeId: string;
  {
    await using driver = await DriverProcess.start(scratch, first);
    using client = driver.connect();
    volumeId = await new TestVolume(scratch, 'data').create(client);
    const moved = await holdfast(['move', 'data', '--to-pool', 'two', '--wait'], environmentFor(scratch, first));
    assert.equal(moved.code, 0, moved.stderr);
  }
  const second = optionsOf('node-b', [pool('one', 'own'), pool('moved', 'one')]);
  await using driver = await DriverProcess.start(elsewhere, second);
  const environment = environmentFor(elsewhere, second);
  const typed = (...words: string[]) => holdfast(words, environment);
  assert.match((await typed('trash')).stdout, new RegExp(volumeId));
  const refused = await typed('trash', 'restore', volumeId);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /may be on node node-a: restore it there\..* If that node will never come back, or is this one under another name: --node-is-lost node-a\.$/m,
  );
  assert.match((await typed('move', 'cancel', volumeId)).stderr, /is not moving/);
  assert.match((await typed('trash', 'restore', volumeId, '--node-is-lost', 'node-c')).stderr, /may be on node node-a/);
  const taken = await typed('trash', 'restore', volumeId, '--node-is-lost', 'node-a');
  assert.equal(taken.code, 0, taken.stderr);
  const { volumes } = JSON.parse((await typed('volumes', '--json')).stdout);
  assert.deepEqual(
    volumes.map((each: Record<string, string>) => [each['id'], each['pool']]),
    [[volumeId, 'moved']],
  );
  assert.equal(driver.hasEnded, false);
});
