import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { AdminClient, AdminError } from '../../src/admin/client.ts';
import type { Moving } from '../../src/admin/protocol.ts';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import type { DriverClient } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/** The steps of snapshots that follow their volume, each with the pass at which the driver dies. */
const points: readonly (readonly [StepName, number])[] = [
  ['move/note', 1],
  ['move/fence', 1],
  ['move/draft', 1],
  ['move/progress', 1],
  ['move/progress', 2],
  ['move/progress', 3],
  ['move/generation', 1],
  ['move/give', 1],
  ['move/complete', 1],
  ['move/commit', 1],
  ['move/settle', 1],
  ['move/fence', 2],
  ['move/commit', 2],
  ['move/forget', 1],
];
/** The steps of a move that is given up. */
const cancelPoints: readonly StepName[] = ['move/discard', 'move/open', 'move/forget'];

const capability = { access_mode: { mode: 'SINGLE_NODE_WRITER' }, block: {} } as const;
const pools = ['one', 'two'] as const;

/** A node with two pools that share blocks, whose driver is killed and started again. */
class Node {
  readonly scratch: Scratch;
  readonly volume: TestVolume;
  readonly admin: AdminClient;
  readonly #command: DriverCommand;
  /** The digests of the snapshots, by their ids. */
  readonly snapshots = new Map<string, string>();
  #count = 0;

  constructor(scratch: Scratch, command: DriverCommand) {
    this.scratch = scratch;
    this.#command = command;
    this.volume = new TestVolume(scratch, 'data', capability);
    this.admin = new AdminClient(scratch.join('data', 'admin.sock'));
  }

  start(crashPoint?: string): Promise<DriverProcess> {
    const lines = pools.map((name) => `  ${name}: { file: ${this.scratch.join(`${name}.img`)}, size: 1Gi }`);
    return DriverProcess.start(this.scratch, {
      command: this.#command.plain,
      config: ['defaultPool: one', 'pools:', ...lines, ''].join('\n'),
      environment: {
        ...this.#command.environment,
        HOLDFAST_MOVE_SNAPSHOTS: 'true',
        ...(crashPoint !== undefined && { HOLDFAST_TEST_CRASH_AT: crashPoint }),
      },
    });
  }

  async order(id: string, to: string, limit?: bigint, withSnapshots = false): Promise<void> {
    await this.#known(() => this.admin.startMove(id, to, limit, withSnapshots));
  }

  /** Asks once the driver has found the moves that an earlier one has left. */
  async #known<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof AdminError && error.message.includes('the driver is starting'))) throw error;
        await setTimeout(20);
      }
    }
  }

  /** A volume in one pool and its snapshots in the other. */
  async apart(): Promise<{ readonly id: string; readonly to: string }> {
    await using driver = await this.start();
    using client = driver.connect();
    const id = await this.create(client);
    return { id, to: await this.moveAlone(id) };
  }

  /** A volume in the first pool with two snapshots. */
  async create(client: DriverClient): Promise<string> {
    const id = await this.volume.create(client, { pool: 'one' });
    await this.volume.stage(client, id);
    for (const name of ['older', 'newer']) {
      await this.volume.publish(client, id);
      const file = openSync(this.volume.targetPath, 'r+');
      writeSync(file, randomBytes(3 << 20), 0, 3 << 20, name === 'older' ? 0 : 1 << 20);
      fsyncSync(file);
      closeSync(file);
      const digest = digestOf(this.volume.targetPath);
      await this.volume.unpublish(client, id);
      const { snapshot } = await client.controller.CreateSnapshot({ source_volume_id: id, name });
      this.snapshots.set(snapshot?.snapshot_id ?? assert.fail(), digest);
    }
    await this.volume.unstage(client, id);
    return id;
  }

  async move(id: string): Promise<Moving | undefined> {
    const { moves } = await this.#known(() => this.admin.listMoves());
    return moves.find((move) => move.id === id);
  }

  async pool(id: string): Promise<string> {
    return (await this.admin.holders(id)).pool;
  }

  /** Moves the volume, and none of its snapshots. @returns the pool where it is then */
  async moveAlone(id: string): Promise<string> {
    const to = (await this.pool(id)) === 'one' ? 'two' : 'one';
    await this.order(id, to);
    await eventually(async () => assert.equal((await this.move(id))?.state, 'done'));
    return to;
  }

  /** Orders the move of a driver that dies in it. It may still be starting. */
  async startUntilDead(driver: DriverProcess, id: string, to: string): Promise<void> {
    await eventually(async () => {
      if (driver.hasEnded) return;
      const order = this.order(id, to, undefined, true);
      await order.catch((error: unknown) => {
        if (driver.hasEnded) return;
        throw error;
      });
    });
    await eventually(() => assert.ok(driver.hasEnded));
  }

  async snapshotsEnded(id: string, state = 'done'): Promise<void> {
    await eventually(async () => assert.equal((await this.move(id))?.snapshots?.state, state));
  }

  /** Each snapshot is listed once: none is missing but for the moment between two pools, and none is there twice. */
  async requireListed(client: DriverClient): Promise<void> {
    await eventually(async () => {
      const { entries } = await client.controller.ListSnapshots({});
      const ids = entries.map((entry) => entry.snapshot?.snapshot_id);
      assert.equal(new Set(ids).size, ids.length, 'one is listed twice');
      assert.deepEqual(ids.sort(), [...this.snapshots.keys()].sort());
    });
  }

  /** Each snapshot is there once, and has the bytes that it had. */
  async requireWhole(client: DriverClient): Promise<void> {
    await this.requireListed(client);
    for (const [snapshot_id, digest] of this.snapshots) {
      const copy = new TestVolume(this.scratch, `copy-${++this.#count}`, capability);
      const { volume } = await client.controller.CreateVolume({
        name: copy.name,
        capacity_range: { required_bytes: 64n << 20n },
        volume_capabilities: [capability],
        volume_content_source: { snapshot: { snapshot_id } },
      });
      const id = volume?.volume_id ?? assert.fail();
      await copy.stage(client, id);
      await copy.publish(client, id);
      assert.equal(digestOf(copy.targetPath), digest);
      await copy.tearDown(client, id);
    }
  }

  /** The snapshots lie in this pool alone, and nothing is on its way. */
  async requireIn(pool: string): Promise<void> {
    await eventually(() => {
      for (const name of pools) {
        const root = this.scratch.join('data', 'pools', name);
        const expected = name === pool ? [...this.snapshots.keys()].sort() : [];
        assert.deepEqual(readdirSync(`${root}/snapshots`).sort(), expected, name);
        assert.deepEqual(readdirSync(`${root}/tmp`), [], name);
      }
    });
  }
}

describe('a driver that is killed while snapshots follow their volume', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('before and after each step: each snapshot is whole, and there once, and the next start ends it', async (t) => {
    using scratch = new Scratch('snapshots-killed');
    const node = new Node(scratch, command);
    let { id, to } = await node.apart();
    for (const [step, pass] of points) {
      for (const when of ['before', 'after'] satisfies CrashPoint['when'][]) {
        await t.test(`${when} ${step}, pass ${pass}`, async () => {
          {
            await using driver = await node.start(`${when} ${step} ${pass}`);
            await node.startUntilDead(driver, id, to);
          }
          await using driver = await node.start();
          using client = driver.connect();
          await node.requireListed(client);
          // Before its first note nothing was begun.
          if (step === 'move/note' && when === 'before') await node.order(id, to, undefined, true);
          await node.snapshotsEnded(id);
          await node.requireIn(to);
          await node.requireWhole(client);
          assert.equal(await node.pool(id), to);
          to = await node.moveAlone(id);
        });
      }
    }
  });

  test('between the end of the move of the volume, and the beginning of that of its snapshots', async (t) => {
    using scratch = new Scratch('snapshots-killed');
    const node = new Node(scratch, command);
    let id = '';
    {
      await using driver = await node.start();
      using client = driver.connect();
      id = await node.create(client);
    }
    for (const crash of ['before move/note 2', 'after move/note 2', 'before move/forget 1', 'after move/settle 1']) {
      await t.test(crash, async () => {
        let to = '';
        {
          await using driver = await node.start(crash);
          to = (await node.pool(id)) === 'one' ? 'two' : 'one';
          await node.startUntilDead(driver, id, to);
        }
        await using driver = await node.start();
        using client = driver.connect();
        await eventually(async () => assert.equal((await node.move(id))?.state, 'done'));
        await node.snapshotsEnded(id);
        assert.equal(await node.pool(id), to);
        await node.requireIn(to);
        await node.requireWhole(client);
      });
    }
  });

  test('after each step of its end: each snapshot is whole, and where it was', async (t) => {
    using scratch = new Scratch('snapshots-killed');
    const node = new Node(scratch, command);
    const { id, to } = await node.apart();
    for (const step of cancelPoints) {
      await t.test(`after ${step}`, async () => {
        {
          await using driver = await node.start(`after ${step}`);
          // So slow that the first one is still being copied.
          await node.order(id, to, 1n << 18n, true);
          await eventually(async () => assert.ok(BigInt((await node.move(id))?.snapshots?.totalBytes ?? 0n) > 0n));
          await node.admin.cancelMove(id).catch(requireGone);
          await eventually(() => assert.ok(driver.hasEnded));
        }
        await using driver = await node.start();
        using client = driver.connect();
        if ((await node.move(id))?.snapshots?.state === 'running') await node.admin.cancelMove(id);
        await node.snapshotsEnded(id, 'cancelled');
        await node.requireIn(to === 'one' ? 'two' : 'one');
        await node.requireWhole(client);
      });
    }
  });
});

function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function requireGone(error: unknown): void {
  if (!(error instanceof AdminError && error.code === 'UNAVAILABLE')) throw error;
}
