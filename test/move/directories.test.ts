import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { openTestDirectories, openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { mounted } from '../support/mounted-volume.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { Broker, introduce, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';
import { describedTree, makeWildTree, requireTree } from './wild-tree.ts';

const spec = volumeSpec('data', { content: { type: 'directory' }, sizeBytes: 256n << 20n });
const { id } = spec;

/** A node with a directory pool on the host's disk, one on an XFS, and one of images. */
class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly #scratch: Scratch;
  mover: Mover;

  private constructor(pools: Pools, scratch: Scratch) {
    this.pools = pools;
    this.#scratch = scratch;
    this.mover = this.#newMover();
  }

  #newMover(): Mover {
    return new Mover({
      ...{ pools: this.pools, objects: new ObjectQueue(), dataDirectory: this.#scratch.join('data') },
      ...{ queue: new DiskQueue('node', 2), log: quiet },
    });
  }

  /** As a restart of the driver does it. */
  async resumeAfter(meanwhile: () => Promise<void>): Promise<void> {
    await this.mover.stop();
    await meanwhile();
    this.mover = this.#newMover();
    await this.mover.resume();
  }

  static async open(scratch: Scratch): Promise<Node> {
    const image = { type: 'directory', path: scratch.join('image') } as const;
    const pools = new Pools(
      new Map([
        ['host', (queue) => openTestDirectories(scratch, { name: 'host', queue })],
        ['xfs', (queue) => openTestDirectoriesOnXfs(scratch, { name: 'xfs', queue })],
        ['image', (queue) => openTestPool(scratch, { name: 'image', queue, location: image })],
      ]),
      'host',
    );
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = new Node(pools, scratch);
    await node.mover.resume();
    return node;
  }

  sight(): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  async move(to: string): Promise<readonly (string | undefined)[]> {
    await this.mover.start(id, to, undefined);
    await eventually(() => assert.notEqual(this.sight().job.state, 'running', this.sight().trouble ?? ''));
    const { reason, state } = this.sight().job;
    return [state, reason];
  }

  path(): Promise<string> {
    return pathOf(this.pools);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

function commandOf(pid: number | undefined): string {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
}

/** The directory of the volume, which is not in use. */
async function pathOf(pools: Pools): Promise<string> {
  const { pool } = await pools.require(id);
  const attachment = await pool.attach(id, { persistent: false });
  assert.equal(attachment.kind, 'directory');
  await attachment.release();
  return attachment.path;
}

describe('a directory that moves between two pools of a node', () => {
  test('there and back: the same entries, and nothing is left but the trash', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    makeWildTree(await node.path());
    const before = describedTree(await node.path());
    for (const to of ['xfs', 'host']) {
      const from = (await node.pools.require(id)).pool;
      const plan = await node.mover.plan(id, to);
      assert.deepEqual([plan.isCopiedInUse, plan.isInUse, plan.arrival.content.type], [false, false, 'directory']);
      assert.deepEqual(await node.move(to), ['done', undefined]);
      assert.equal((await node.pools.require(id)).pool.name, to);
      requireTree(await node.path(), before);
      assert.deepEqual(readdirSync(join(await node.path(), '..')).sort(), ['data', 'move.json', 'volume.json']);
      const [left] = await from.trash();
      assert.ok(Date.parse(left?.purgeAt ?? '') > Date.now() + 6.9 * 86_400_000, 'a week in the trash');
    }
  });

  test('waits until it is not in use, and cannot be used until it has moved', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    const host = node.pools.get('host');
    await host.create(spec);
    {
      await using volume = await mounted(host, id, scratch);
      writeFileSync(join(volume.path, 'file'), 'before');
      assert.equal((await node.mover.plan(id, 'xfs')).isInUse, true);
      await node.mover.start(id, 'xfs', undefined);
      await eventually(() => assert.equal(node.sight().progress?.phase, 'waiting'));
      writeFileSync(join(volume.path, 'later'), 'after');
    }
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    assert.deepEqual(readdirSync(await node.path()).sort(), ['file', 'later']);
  });

  test('into a pool that is full: it can be used where it is, and moves once there is room', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    const path = await node.path();
    const contents = Array.from({ length: 24 }, () => randomBytes(4 << 20));
    for (const [index, content] of contents.entries()) writeFileSync(join(path, `${index}`), content);
    const xfs = scratch.join('xfs');
    const { bavail, bsize } = statfsSync(xfs, { bigint: true });
    await node.mover.start(id, 'xfs', 8n << 20n);
    await eventually(() => assert.equal(node.sight().progress?.phase, 'switching'));
    // There was room for its size, until others took it.
    execFileSync('fallocate', ['--length', `${bavail * bsize - (64n << 20n)}`, join(xfs, 'of others')]);
    await eventually(() => assert.equal(node.sight().job.state, 'failed', node.sight().trouble ?? ''));
    assert.match(node.sight().job.reason ?? '', /^pool xfs has no room for 256Mi \(its filesystem is full\)/);
    const requireWhole = async () => {
      const now = await node.path();
      for (const [index, content] of contents.entries()) assert.ok(readFileSync(join(now, `${index}`)).equals(content));
    };
    await requireWhole();
    execFileSync('rm', [join(xfs, 'of others')]);
    assert.deepEqual(await node.move('xfs'), ['done', undefined]);
    await requireWhole();
  });

  test('with more in it than its size is refused before anything is copied, and moves once it is larger', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    const host = node.pools.get('host');
    await host.create({ ...spec, sizeBytes: 1n << 20n });
    execFileSync('fallocate', ['--length', `${66 << 20}`, join(await node.path(), 'large')]);
    await eventually(async () => {
      await assert.rejects(node.mover.plan(id, 'xfs'), /FailedPrecondition: The volume has more in it than its size/);
    });
    await host.grow(id, 4n << 20n);
    assert.deepEqual(await node.move('xfs'), ['done', undefined]);
  });

  test('with more in it than its size moves at once when files were removed', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create({ ...spec, sizeBytes: 1n << 20n });
    const large = join(await node.path(), 'large');
    execFileSync('fallocate', ['--length', `${66 << 20}`, large]);
    await eventually(async () => {
      await assert.rejects(node.mover.plan(id, 'xfs'), /FailedPrecondition: The volume has more in it than its size/);
    });
    rmSync(large);
    // By one more try at the latest: the count may take longer than the plan waits.
    await node.mover.plan(id, 'xfs').catch(() => undefined);
    assert.deepEqual(await node.move('xfs'), ['done', undefined]);
  });

  for (const [what, hold] of [
    ['its working directory in it', 'cd "$0/inside" && exec sleep 60'],
    ['a directory of it open', 'exec 9<"$0/inside" && exec sleep 60'],
    ['a file of it open', 'exec 9>"$0/file" && exec sleep 60'],
  ] as const) {
    test(`waits for a process that has ${what}, which needs no mount to write on`, async () => {
      using scratch = new Scratch('move-directory');
      await using node = await Node.open(scratch);
      await node.pools.get('host').create(spec);
      const path = await node.path();
      mkdirSync(join(path, 'inside'));
      const holder = spawn('sh', ['-c', hold, path]);
      try {
        await eventually(() => assert.equal(commandOf(holder.pid), 'sleep'));
        await node.mover.start(id, 'xfs', undefined);
        const trouble = new RegExp(`is mounted nowhere, and in use by process ${holder.pid} \\(sleep\\) at `);
        await eventually(() => assert.match(node.sight().trouble ?? '', trouble));
        assert.equal((await node.pools.get('host').moves?.stateOf(id))?.why, undefined, 'it is not fenced');
      } finally {
        holder.kill('SIGKILL');
      }
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    });
  }

  test('waits for a process that came into it while its move was not resumed yet', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    const path = await node.path();
    writeFileSync(join(path, 'large'), randomBytes(8 << 20));
    await node.mover.start(id, 'xfs', 1n << 20n);
    await eventually(() => assert.ok((node.sight().progress?.doneBytes ?? 0n) > 1n << 20n));
    let holder: ChildProcess | undefined;
    try {
      await node.resumeAfter(async () => {
        holder = spawn('sleep', ['60'], { cwd: path });
        await eventually(() => assert.equal(commandOf(holder?.pid), 'sleep'));
      });
      await eventually(() => assert.match(node.sight().trouble ?? '', /in use by process [0-9]+ \(sleep\) at /));
    } finally {
      holder?.kill('SIGKILL');
    }
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
  });

  test('waits for no process if it can see none: it says what the driver needs', () => {
    const script = `
      import { DiskQueue } from '${import.meta.resolve('../../src/kernel/call/disk-queue.ts')}';
      import { refuseProcessesIn } from '${import.meta.resolve('../../src/pool/catalog/in-use.ts')}';
      await refuseProcessesIn(new DiskQueue('test', 1), '/var', 'vol').catch((error) => console.log(String(error)));
      process.exit(0);`;
    const words = [
      '--pid',
      '--fork',
      '--kill-child',
      process.execPath,
      '--input-type=module-typescript',
      '--eval',
      script,
    ];
    const said = execFileSync('unshare', words, { encoding: 'utf8' });
    assert.match(said, /^Unavailable: volume vol cannot move: .*Give the driver's pod hostPID: true\.$/m);
  });

  test('that a process writes to all the same is copied again, and has all of it', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    const path = await node.path();
    writeFileSync(join(path, 'large'), randomBytes(24 << 20));
    await node.mover.start(id, 'xfs', 8n << 20n);
    await eventually(() => assert.ok((node.sight().progress?.doneBytes ?? 0n) > 1n << 20n));
    writeFileSync(join(path, 'later'), 'after');
    await eventually(() => assert.match(node.sight().trouble ?? '', /data has changed while the volume was copied/));
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    assert.deepEqual(readdirSync(await node.path()).sort(), ['large', 'later']);
  });

  test('is refused with what is mounted in it, and by a pool of another kind', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    await assert.rejects(node.mover.plan(id, 'image'), {
      name: 'FailedPrecondition',
      message: `volume ${id} cannot move to pool image: its volumes are no directories.`,
    });
    const image = await node.pools.get('image').create(volumeSpec('image'));
    await assert.rejects(node.mover.plan(image.id, 'host'), { message: /cannot move to pool host: it has no volumes/ });
    const inside = join(await node.path(), 'inside');
    mkdirSync(inside);
    execFileSync('mount', ['-t', 'tmpfs', 'none', inside]);
    const [state, reason = ''] = await node.move('xfs');
    assert.deepEqual([state, /something is mounted at .*Unmount it first/.test(reason)], ['failed', true]);
    execFileSync('umount', [inside]);
    assert.deepEqual(await node.move('xfs'), ['done', undefined]);
    assert.ok(existsSync(join(await node.path(), 'inside')));
  });

  test('that was cancelled leaves nothing in the other pool', async () => {
    using scratch = new Scratch('move-directory');
    await using node = await Node.open(scratch);
    await node.pools.get('host').create(spec);
    makeWildTree(await node.path(), 10);
    await node.mover.start(id, 'xfs', 1n << 20n);
    await eventually(() => assert.notEqual(node.sight().progress?.copiedBytes, 0n));
    await node.mover.cancel(id);
    assert.equal((await node.pools.require(id)).pool.name, 'host');
    await node.pools.get('xfs').purge();
    for (const name of ['tmp', 'trash', 'volumes']) {
      assert.deepEqual(readdirSync(scratch.join('xfs', 'pool', name)), [], name);
    }
  });
});

describe('a directory that moves between two nodes', () => {
  test('there and back: the same entries', async () => {
    using scratch = new Scratch('move-directory');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { directories: true });
    await using b = await MovingNode.open(scratch, broker, 'b', { directories: true });
    await a.pool.create(spec);
    makeWildTree(await pathOf(a.pools));
    const before = describedTree(await pathOf(a.pools));
    for (const [source, target] of [
      [a, b],
      [b, a],
    ] as const) {
      await order(source, target, id);
      const { job } = await target.ended(id);
      assert.deepEqual([job.state, job.reason, job.node], ['done', undefined, source.name]);
      assert.equal(await source.pools.find(id), undefined);
      requireTree(await pathOf(target.pools), before);
    }
  });

  test('that cannot move, as something is mounted in it, stays usable where it is, and the move says why', async () => {
    using scratch = new Scratch('move-directory');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { directories: true });
    await using b = await MovingNode.open(scratch, broker, 'b', { directories: true });
    await a.pool.create(spec);
    const inside = join(await pathOf(a.pools), 'inside');
    mkdirSync(inside);
    execFileSync('mount', ['-t', 'tmpfs', 'none', inside]);
    await order(a, b, id);
    const { reason = '', state } = (await b.ended(id)).job;
    assert.deepEqual([state, /something is mounted at .*Unmount it first/.test(reason)], ['failed', true], reason);
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
    execFileSync('umount', [inside]);
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
  });

  for (const [what, fill] of [
    ['of which nothing was compared', (path: string) => writeFileSync(join(path, 'large'), randomBytes(8 << 20))],
    ['of which a part was compared', (path: string) => makeWildTree(path, 20)],
  ] as const) {
    test(`${what} is of one copy after either driver was started again in the middle`, async () => {
      using scratch = new Scratch('move-directory');
      const broker = new Broker();
      const open = (name: string) => MovingNode.open(scratch, broker, name, { directories: true });
      let [a, b] = [await open('a'), await open('b')];
      try {
        await a.pool.create(spec);
        const path = await pathOf(a.pools);
        fill(path);
        execFileSync('find', [path, '-exec', 'touch', '-h', '-a', '-d', '2031-01-01', '{}', '+']);
        const before = describedTree(path);
        const isUnderWay = () => eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 1n << 20n));
        const moveId = await order(a, b, id, 2n << 20n);
        await isUnderWay();
        await a[Symbol.asyncDispose]();
        await eventually(() => assert.ok(b.sight(id).isUnconnected));
        a = await open('a');
        await introduce(a, b, { id, moveId });
        await isUnderWay();
        await b[Symbol.asyncDispose]();
        assert.equal(await pathOf(a.pools).then(String, (error) => error.name), 'FailedPrecondition');
        b = await open('b');
        await eventually(() => assert.ok(b.sight(id).isUnconnected));
        await introduce(a, b, { id, moveId });
        assert.equal((await b.ended(id)).job.state, 'done');
        requireTree(await pathOf(b.pools), before);
        assert.equal(await a.pools.find(id), undefined);
        await b.pool.purge();
        for (const name of ['tmp', 'trash']) assert.deepEqual(readdirSync(scratch.join('b', name)), [], name);
      } finally {
        await a[Symbol.asyncDispose]();
        await b[Symbol.asyncDispose]();
      }
    });
  }

  test('that is used again, as the other node was away, moves as it is then', async () => {
    using scratch = new Scratch('move-directory');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { directories: true, fenceTimeoutMs: 2_000 });
    let b = await MovingNode.open(scratch, broker, 'b', { directories: true });
    try {
      await a.pool.create(spec);
      const path = await pathOf(a.pools);
      for (const name of ['kept', 'changed', 'removed']) writeFileSync(join(path, name), randomBytes(2 << 20));
      const moveId = await order(a, b, id, 2n << 20n);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 1n << 20n));
      await b[Symbol.asyncDispose]();
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
      rmSync(join(await pathOf(a.pools), 'removed'));
      writeFileSync(join(path, 'changed'), 'later');
      const before = describedTree(path, 'unread');
      b = await MovingNode.open(scratch, broker, 'b', { directories: true });
      await introduce(a, b, { id, moveId });
      assert.equal((await b.ended(id)).job.state, 'done');
      assert.deepEqual(describedTree(await pathOf(b.pools), 'unread'), before);
    } finally {
      await b[Symbol.asyncDispose]();
    }
  });

  test('is refused by a node whose pool has no directories', async () => {
    using scratch = new Scratch('move-directory');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { directories: true });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await a.pool.create(spec);
    await assert.rejects(order(a, b, id), { message: /its volumes are no directories/ });
  });
});
