import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Random, testSeed } from '../support/random.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { Broker, introduce, MovingNode } from './two-nodes.ts';
import { describedTree, makeWildTree, requireTree } from './wild-tree.ts';

const mib = 1 << 20;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 64n << 20n });
const { id } = spec;

/** A network between two nodes, which cuts each connection after some bytes of its answers. */
class CutNetwork implements AsyncDisposable {
  readonly #server: Server;
  /** The bytes after which the next connection is cut. */
  nextCut: () => number = () => Number.POSITIVE_INFINITY;
  onCut: () => void = () => undefined;

  private constructor(toPort: () => number) {
    this.#server = createServer((from) => {
      const to = connect(toPort(), '127.0.0.1');
      let left = this.nextCut();
      const cut = () => {
        from.destroy();
        to.destroy();
        this.onCut();
      };
      for (const socket of [from, to]) socket.on('error', () => undefined);
      from.on('data', (bytes) => to.write(bytes));
      from.on('close', () => to.destroy());
      to.on('close', () => from.destroy());
      to.on('data', (bytes: Buffer) => {
        if (from.destroyed) return;
        // The request was carried out, and its answer is lost, or a part of it.
        if (bytes.length > left) cut();
        else from.write(bytes);
        left -= bytes.length;
      });
    });
  }

  static async open(toPort: () => number): Promise<CutNetwork> {
    const network = new CutNetwork(toPort);
    network.#server.listen(0, '127.0.0.1');
    await once(network.#server, 'listening');
    return network;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.nextCut = () => 0;
    this.#server.close();
  }
}

/** An order is cut off, too: the controller repeats it. */
async function orderThrough({ port }: CutNetwork, from: MovingNode, to: MovingNode): Promise<void> {
  const moveId = randomUUID();
  await introduce(from, to, { id, moveId }, 'order', port);
  const asked = { id, moveId, node: from.name, to: undefined, ticket: 'ticket', limitBytesPerSecond: undefined };
  await eventually(async () => void (await to.mover.startFrom(asked)));
}

test('a move through a network that is cut in each of its rounds, and at its end: the same bytes, in one place', async (t) => {
  const random = new Random(testSeed());
  t.diagnostic(`HOLDFAST_TEST_SEED=${random.seed}`);
  using scratch = new Scratch('cut');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
  await using b = await MovingNode.open(scratch, broker, 'b', { xfs: true });
  await using network = await CutNetwork.open(() => a.port);
  await a.pool.create(spec);
  const cuts = new Map<string, number>();
  network.onCut = () => {
    const phase = b.mover.sights()[0]?.progress?.phase ?? 'none';
    cuts.set(phase, (cuts.get(phase) ?? 0) + 1);
  };
  // The controller brings them together again and again.
  const reconnecting = setInterval(() => b.mover.connected('a'), 50);
  t.after(() => clearInterval(reconnecting));
  const lengths = [3_000, 6_000, 60_000, 2 * mib, 6 * mib];
  network.nextCut = () => random.pick(lengths) ?? 0;
  let before: string;
  {
    await using shown = await deviceOf(a, id);
    write(shown.devicePath, randomBytes(20 * mib), BigInt(5 * mib));
    await orderThrough(network, a, b);
    // Each round has changes to copy.
    for (let round = 0; round < 4; round++) {
      await eventually(() => assert.equal(b.sight(id).progress?.phase, 'waiting'), 120_000);
      write(shown.devicePath, randomBytes(4 * mib), BigInt(random.integer(0, 56) * mib));
      write(shown.devicePath, Buffer.alloc(mib), BigInt(random.integer(0, 60) * mib));
    }
    before = digestOf(shown.devicePath);
  }
  assert.equal((await b.ended(id)).job.state, 'done');
  network.nextCut = () => Number.POSITIVE_INFINITY;
  t.diagnostic(`cut: ${[...cuts].map(([phase, count]) => `${count} ${phase}`).join(', ')}`);
  {
    await using shown = await deviceOf(b, id);
    assert.equal(digestOf(shown.devicePath), before);
  }
  await eventually(() => assert.equal(a.leavings.jobs()[0]?.state, 'done'), 60_000);
  assert.equal(await a.pools.find(id), undefined);
  for (const { pool } of [a, b]) assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
});

test('a move of a directory through a network that is cut again and again: the same entries, in one place', async (t) => {
  const random = new Random(testSeed());
  t.diagnostic(`HOLDFAST_TEST_SEED=${random.seed}`);
  using scratch = new Scratch('cut');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a', { directories: true });
  await using b = await MovingNode.open(scratch, broker, 'b', { directories: true });
  await using network = await CutNetwork.open(() => a.port);
  await a.pool.create({ ...spec, content: { type: 'directory' } });
  const reconnecting = setInterval(() => b.mover.connected('a'), 50);
  t.after(() => clearInterval(reconnecting));
  let cuts = 0;
  network.onCut = () => cuts++;
  // None of them gets all of it through, and the first two get little of it through: whatever the seed, two are cut.
  const lengths = [3_000, 6_000, 60_000, mib, 4 * mib, 7 * mib, 24 * mib, 30 * mib];
  const first = [60_000, 4 * mib];
  network.nextCut = () => first.shift() ?? random.pick(lengths) ?? 0;
  const pathIn = async ({ pool }: MovingNode) => {
    const attached = await pool.attach(id, { persistent: false });
    assert.ok(attached.kind === 'directory');
    await attached.release();
    return attached.path;
  };
  const from = await pathIn(a);
  makeWildTree(from, 20);
  for (const name of ['more', 'and more']) writeFileSync(`${from}/${name}`, randomBytes(20 * mib));
  const before = describedTree(from);
  await orderThrough(network, a, b);
  await eventually(() => assert.notEqual(b.sight(id).job.state, 'running', b.sight(id).trouble ?? ''), 240_000);
  assert.deepEqual([b.sight(id).job.state, b.sight(id).job.reason], ['done', undefined]);
  network.nextCut = () => Number.POSITIVE_INFINITY;
  t.diagnostic(`${cuts} cuts`);
  assert.ok(cuts >= 2);
  requireTree(await pathIn(b), before);
  await eventually(() => assert.equal(a.leavings.jobs()[0]?.state, 'done'), 60_000);
  assert.equal(await a.pools.find(id), undefined);
});
