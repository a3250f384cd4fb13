import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { type ConnectionOptions, connect } from 'node:tls';
import { type NodeIdentity, peerName } from '../../src/move/nodes/names.ts';
import { GivingServer } from '../../src/move/nodes/server.ts';
import { upgradeTo } from '../../src/move/nodes/wire.ts';
import type { MoveSource, Reading } from '../../src/move/source.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { openPaths } from '../support/open-paths.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { Broker, MovingNode, type MovingNodeOptions } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const mib = 1 << 20;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 96n << 20n });
const { id } = spec;

class Giving implements AsyncDisposable {
  readonly #scratch: Scratch;
  readonly a: MovingNode;
  readonly b: MovingNode;
  readonly broker: Broker;

  private constructor(scratch: Scratch, broker: Broker, a: MovingNode, b: MovingNode) {
    this.#scratch = scratch;
    this.broker = broker;
    this.a = a;
    this.b = b;
  }

  /** Two nodes; the first one has a volume with more in it than a connection and its two ends hold. */
  static async open(options: MovingNodeOptions = {}): Promise<Giving> {
    const scratch = new Scratch('giving');
    const broker = new Broker();
    const a = await MovingNode.open(scratch, broker, 'a', options);
    const b = await MovingNode.open(scratch, broker, 'b');
    await a.pool.create(spec);
    const attached = await a.pool.attach(id, { persistent: true });
    assert.ok(attached.kind === 'device');
    await attached.release();
    const file = openSync(attached.devicePath, 'r+');
    for (let at = 0; at < 80; at++) writeSync(file, randomBytes(mib), 0, mib, at * mib);
    fsyncSync(file);
    closeSync(file);
    await a.pool.detach(attached);
    return new Giving(scratch, broker, a, b);
  }

  /** An ordered move whose target has fenced the volume. */
  async fenced(port = this.a.port): Promise<{ readonly moveId: string; readonly source: MoveSource }> {
    const moveId = randomUUID();
    await this.a.leavings.admit({ id, moveId, node: 'b' }, 'order');
    this.b.nodes.connect('a', { host: '127.0.0.1', port });
    const source = this.b.nodes.source({ id, moveId, node: 'a' }, new AbortController().signal);
    await source.look();
    assert.notEqual(await source.close({ moveId, fenceId: randomUUID() }), undefined);
    source.end();
    return { moveId, source };
  }

  /** What this process has open of the volume, where it is. */
  opened(): string[] {
    const path = this.#scratch.join('a');
    // The directory itself is synced for its mark, and closed behind that.
    return openPaths().filter((target) => target.startsWith(path) && target.includes(`${id}/`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.b[Symbol.asyncDispose]();
    await this.a[Symbol.asyncDispose]();
    this.#scratch[Symbol.dispose]();
  }
}

/** Begun by a target that takes nothing more. */
function stalled(source: MoveSource): Promise<Reading> {
  return source.read({ of: undefined, fromBytes: 0n, signal: new AbortController().signal });
}

async function requireCut(reading: Reading): Promise<void> {
  const all = async () => {
    for await (const { data } of reading.pieces) data?.free();
  };
  await assert.rejects(all(), { name: 'NotConnected' });
}

function clientOf(node: NodeIdentity, port: number) {
  const { authorities: ca, certificate: cert, key } = node;
  const options: ConnectionOptions & { readonly allowHalfOpen: boolean } = {
    ...{ host: '127.0.0.1', port, ca, cert, key, servername: peerName('a') },
    // It leaves its own half open.
    allowHalfOpen: true,
  };
  const socket = connect(options);
  socket.on('error', () => undefined);
  return socket;
}

function upgrade(path: string, name = upgradeTo): string {
  return `GET ${path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: ${name}\r\n\r\n`;
}

describe('a stream to another node', () => {
  test('ends when its move is cancelled at the source, and nothing of the volume is open there then', async () => {
    await using nodes = await Giving.open();
    const { a } = nodes;
    const { moveId, source } = await nodes.fenced();
    await using reading = await stalled(source);
    await eventually(() => assert.notDeepEqual(nodes.opened(), []));
    assert.equal((await a.leavings.cancel(id, false))?.state, 'cancelled');
    assert.deepEqual(nodes.opened(), []);
    await requireCut(reading);
    await assert.rejects(stalled(source), { name: 'MoveEnded', message: /was cancelled/ });
    await assert.rejects(source.close({ moveId, fenceId: 'x' }), { name: 'MoveEnded' });
  });

  test('of a move that was forgotten is over when the deletion has its answer', async () => {
    await using nodes = await Giving.open();
    const { source } = await nodes.fenced();
    await using reading = await stalled(source);
    await eventually(() => assert.notDeepEqual(nodes.opened(), []));
    await nodes.a.leavings.forgetDeleted(id);
    assert.deepEqual(nodes.opened(), []);
    await requireCut(reading);
  });

  test('ends with the fence, and none begins without one', async () => {
    await using nodes = await Giving.open();
    const { source } = await nodes.fenced();
    await using reading = await stalled(source);
    await eventually(() => assert.notDeepEqual(nodes.opened(), []));
    await source.open();
    assert.deepEqual(nodes.opened(), []);
    await requireCut(reading);
    await assert.rejects(stalled(source), { name: 'Unavailable', message: /fence .* has ended/ });
  });

  for (const isAgain of [false, true]) {
    const what = isAgain ? 'is another one' : 'stands no more';
    test(`is refused behind its last piece, if the fence ${what} that stood when it began`, async () => {
      await using nodes = await Giving.open();
      const { moveId, source } = await nodes.fenced();
      await using reading = await stalled(source);
      const moves = movesOf(nodes.a.pool);
      await moves.open(id, moveId);
      if (isAgain) await moves.close(id, { moveId, fenceId: randomUUID(), to: 'b' });
      const all = async () => {
        for await (const { data } of reading.pieces) data?.free();
      };
      await assert.rejects(all(), { name: 'Unavailable', message: /the fence of volume .* has ended/ });
    });
  }

  test('ends when the volume moves to yet another node', async () => {
    await using nodes = await Giving.open();
    const { a } = nodes;
    const { source } = await nodes.fenced();
    await using reading = await stalled(source);
    await eventually(() => assert.notDeepEqual(nodes.opened(), []));
    await a.leavings.cancel(id, false);
    await a.leavings.admit({ id, moveId: randomUUID(), node: 'c' }, 'order');
    await requireCut(reading);
    await assert.rejects(stalled(source), { name: /NotConnected|MoveEnded/ });
  });

  test('whose target takes nothing for long is ended', async (t) => {
    await using nodes = await Giving.open();
    const identity = nodes.broker.identity('a');
    const { leavings, objects, snapshotLeavings } = nodes.a;
    const parts = { identity, leavings, snapshotLeavings, objects, log: quiet, host: '127.0.0.1', port: 0 };
    const server = new GivingServer({ ...parts, slowestMs: 500 });
    const port = await server.listen();
    t.after(() => server.close());
    const { source } = await nodes.fenced(port);
    await using reading = await stalled(source);
    await eventually(() => assert.deepEqual(nodes.opened(), []));
    await requireCut(reading);
  });
});

test('word of a move that has ended keeps the fence of another one up no longer', async (t) => {
  await using nodes = await Giving.open({ fenceTimeoutMs: 2_000 });
  const { a } = nodes;
  const { moveId } = await nodes.fenced();
  await a.leavings.cancel(id, false);
  const next = await nodes.fenced();
  assert.notEqual(next.moveId, moveId);
  const speaking = setInterval(() => a.leavings.heard({ id, moveId, node: 'b' }), 100);
  t.after(() => clearInterval(speaking));
  await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
});

describe('the port for other nodes', () => {
  test('keeps no connection of a node that is let in to nothing, and says why', async (t) => {
    await using nodes = await Giving.open();
    const c = nodes.broker.identity('c');
    // More than one node may have at a time.
    for (let count = 0; count < 40; count++) {
      const socket = clientOf(c, nodes.a.port);
      t.after(() => socket.destroy());
      let answer = '';
      socket.on('data', (bytes: Buffer) => {
        answer += bytes.toString();
      });
      socket.write(upgrade(`/v1/moves/${randomUUID()}/${id}/read?ask={}`));
      await once(socket, 'end');
      assert.match(answer, /^HTTP\/1\.1 403 .*"not-admitted"/s);
    }
  });

  test('lets other nodes in, however many connections one holds', async (t) => {
    await using nodes = await Giving.open();
    const c = nodes.broker.identity('c');
    let open = 0;
    for (let count = 0; count < 300; count++) {
      const socket = clientOf(c, nodes.a.port);
      t.after(() => socket.destroy());
      open++;
      socket.resume().once('end', () => open--);
      await once(socket, 'secureConnect');
    }
    await eventually(() => assert.ok(open <= 32, `${open}`));
    const socket = clientOf(nodes.broker.identity('b'), nodes.a.port);
    t.after(() => socket.destroy());
    await once(socket, 'secureConnect');
    socket.write(upgrade('/'));
    assert.match(await text(socket), /^HTTP\/1\.1 409 /);
  });

  test('refuses a target of another version, which waits then', async (t) => {
    await using nodes = await Giving.open();
    const { moveId } = await nodes.fenced();
    const path = `/v1/moves/${moveId}/${id}/read`;
    const ask = encodeURIComponent('{"fromBytes":"0"}');
    const earlier = `POST ${path} HTTP/1.1\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{"fromBytes":"0"}`;
    for (const request of [upgrade(`${path}?ask=${ask}`, 'holdfast-frames-9'), earlier]) {
      const socket = clientOf(nodes.broker.identity('b'), nodes.a.port);
      t.after(() => socket.destroy());
      socket.write(request);
      assert.match(await text(socket), /^HTTP\/1\.1 409 .*"UNAVAILABLE".*has another version of the driver/s);
    }
  });
});
