import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AdminClient, AdminError } from '../../src/admin/client.ts';
import type { Moving } from '../../src/admin/protocol.ts';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import type { DriverClient } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';
import { describedTree } from './wild-tree.ts';

/** The steps of a move that comes to its end, each with the pass at which the driver dies. */
const points: readonly (readonly [StepName, number])[] = [
  ['move/note', 1],
  ['move/draft', 1],
  ['move/progress', 1],
  ['move/progress', 2],
  ['move/progress', 3],
  ['move/fence', 1],
  ['move/progress', 5],
  ['move/whole', 1],
  ['move/generation', 1],
  ['move/give', 1],
  ['move/complete', 1],
  ['move/commit', 1],
  ['move/arrived', 1],
  ['move/settle', 1],
  ['move/forget', 1],
];
/** The steps of a move that is given up. */
const cancelPoints: readonly StepName[] = ['move/discard', 'move/open', 'move/forget'];
/** The steps of a move that is finished without the pool that the volume leaves. */
const finishPoints: readonly StepName[] = ['move/generation', 'move/complete', 'move/commit', 'move/forget'];

const single = { access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

/** Two pools, and how a pod uses their volumes. */
interface Kind {
  readonly name: string;
  readonly capability: TestVolume['capability'];
  /** Their lines in the configuration. */
  pools(scratch: Scratch): readonly string[];
  write(path: string): void;
  digest(path: string): string;
}

const images: Kind = {
  name: 'images',
  capability: { ...single, block: {} },
  pools: (scratch) => [
    `  plain: { directory: ${scratch.join('plain')} }`,
    `  other: { file: ${scratch.join('other.img')}, size: 2Gi }`,
  ],
  write(path) {
    const file = openSync(path, 'r+');
    writeSync(file, randomBytes(1 << 20), 0, 1 << 20, (Math.floor(Math.random() * 40) + 1) << 20);
    fsyncSync(file);
    closeSync(file);
  },
  digest: (path) => createHash('sha256').update(readFileSync(path)).digest('hex'),
};

const directories: Kind = {
  name: 'directories',
  capability: { ...single, mount: {} },
  pools: (scratch) => [
    `  plain: { kind: directory, path: ${scratch.join('plain')} }`,
    `  other: { kind: directory, path: ${scratch.join('other')} }`,
  ],
  write(path) {
    const below = join(path, `${Math.floor(Math.random() * 10)}`);
    mkdirSync(below, { recursive: true });
    writeFileSync(join(below, `${Math.floor(Math.random() * 10)}`), randomBytes(1 << 20));
    writeFileSync(join(path, 'first'), randomBytes(1 << 20));
    rmSync(join(path, 'other name'), { force: true });
    linkSync(join(path, 'first'), join(path, 'other name'));
  },
  digest: (path) => createHash('sha256').update(describedTree(path, 'unread').join('\n')).digest('hex'),
};

/** A node with two pools, whose driver is killed and started again. */
class Node {
  readonly scratch: Scratch;
  readonly volume: TestVolume;
  readonly admin: AdminClient;
  readonly #kind: Kind;
  readonly #command: DriverCommand;

  constructor(scratch: Scratch, kind: Kind, command: DriverCommand) {
    this.scratch = scratch;
    this.#kind = kind;
    this.#command = command;
    this.volume = new TestVolume(scratch, 'data', kind.capability);
    this.admin = new AdminClient(scratch.join('data', 'admin.sock'));
  }

  /** @param isAlone without the pool that volumes are made in */
  async start(crashPoint?: string, isAlone = false): Promise<DriverProcess> {
    const pools = this.#kind.pools(this.scratch);
    const driver = await DriverProcess.start(this.scratch, {
      command: this.#command.plain,
      config: [`defaultPool: ${isAlone ? 'other' : 'plain'}`, 'pools:', ...pools.slice(isAlone ? 1 : 0), ''].join('\n'),
      environment: {
        ...this.#command.environment,
        ...(crashPoint !== undefined && { HOLDFAST_TEST_CRASH_AT: crashPoint }),
      },
    });
    return driver;
  }

  /** Writes to the volume, or only reads it, as a pod does. @returns its digest */
  async use(client: DriverClient, id: string, write: boolean): Promise<string> {
    await this.volume.stage(client, id);
    await this.volume.publish(client, id);
    if (write) this.#kind.write(this.volume.targetPath);
    const digest = this.#kind.digest(this.volume.targetPath);
    await this.volume.unpublish(client, id);
    await this.volume.unstage(client, id);
    return digest;
  }

  /** A volume that a driver has made, which has ended. */
  async created(): Promise<string> {
    await using driver = await this.start();
    using client = driver.connect();
    return await this.volume.create(client, { pool: 'plain' });
  }

  async move(id: string): Promise<Moving | undefined> {
    return (await this.admin.listMoves()).moves.find((move) => move.id === id);
  }

  /** The pool that has it. */
  async pool(id: string): Promise<string> {
    return (await this.admin.holders(id)).pool;
  }

  /** Nothing is left of the move but the volume, and the trash of the pool that it came from. */
  async requireTidy(): Promise<void> {
    assert.deepEqual(readdirSync(this.scratch.join('plain', 'tmp')), []);
    assert.deepEqual(readdirSync(this.scratch.join('plain', 'snapshots')), []);
  }
}

for (const kind of [images, directories])
  describe(`a driver that is killed in a move between two of its pools of ${kind.name}`, () => {
    let command: DriverCommand;
    before(async () => {
      command = await buildDriver();
    });
    after(() => command[Symbol.dispose]());

    test('after each step: the volume is whole, in one pool, and the next start ends the move', async (t) => {
      using scratch = new Scratch('move-killed');
      const node = new Node(scratch, kind, command);
      const id = await node.created();
      for (const [step, pass] of points) {
        for (const direction of ['there', 'back']) {
          await t.test(`${direction}: after ${step}, pass ${pass}`, async () => {
            let digest = '';
            let from = '';
            {
              await using driver = await node.start(`after ${step} ${pass}`);
              using client = driver.connect();
              from = await node.pool(id);
              digest = await node.use(client, id, true);
              const to = from === 'plain' ? 'other' : 'plain';
              await node.admin.startMove(id, to, undefined).catch(requireGone);
              await died(driver, node, id);
            }
            await using driver = await node.start();
            using client = driver.connect();
            await eventually(async () => assert.equal((await node.move(id))?.state, 'done'));
            assert.equal(await node.pool(id), from === 'plain' ? 'other' : 'plain');
            assert.equal(await node.use(client, id, false), digest);
            await eventually(() => node.requireTidy());
          });
        }
      }
    });

    test('in the middle of the copy, twice: the next start takes nothing half for whole', async () => {
      using scratch = new Scratch('move-killed');
      const node = new Node(scratch, kind, command);
      let [id, digest] = ['', ''];
      {
        await using driver = await node.start();
        using client = driver.connect();
        id = await node.volume.create(client, { pool: 'plain' });
        digest = await node.use(client, id, true);
        await node.admin.startMove(id, 'other', 1n << 19n);
        await diesCopying(driver, node, id);
      }
      {
        await using driver = await node.start();
        await diesCopying(driver, node, id);
      }
      await using driver = await node.start();
      using client = driver.connect();
      await eventually(async () => assert.equal((await node.move(id))?.state, 'done'), 60_000);
      assert.equal(await node.pool(id), 'other');
      assert.equal(await node.use(client, id, false), digest);
      await eventually(() => node.requireTidy());
    });

    test('after each step of its end: the volume is whole, and where it was', async (t) => {
      using scratch = new Scratch('move-killed');
      const node = new Node(scratch, kind, command);
      const id = await node.created();
      for (const step of cancelPoints) {
        await t.test(`after ${step}`, async () => {
          let digest = '';
          {
            await using driver = await node.start(`after ${step}`);
            using client = driver.connect();
            digest = await node.use(client, id, true);
            // So slow that it is still being copied, under its fence.
            await node.admin.startMove(id, 'other', 1n << 18n);
            await eventually(async () => assert.equal((await node.move(id))?.phase, 'switching'));
            await node.admin.cancelMove(id).catch(requireGone);
            await driver.ended();
          }
          await using driver = await node.start();
          using client = driver.connect();
          await eventually(async () => assert.notEqual(await node.move(id), undefined));
          if ((await node.move(id))?.state === 'running') await node.admin.cancelMove(id);
          assert.equal((await node.move(id))?.state, 'cancelled');
          assert.equal(await node.pool(id), 'plain');
          assert.equal(await node.use(client, id, false), digest);
          await eventually(() => node.requireTidy());
        });
      }
    });

    test('before and after each step of its end without the first pool, which is lost: one whole copy', async (t) => {
      for (const step of finishPoints) {
        for (const when of ['before', 'after']) {
          await t.test(`${when} ${step}`, async () => {
            using scratch = new Scratch('move-killed');
            const node = new Node(scratch, kind, command);
            const [id, digest] = await handedOver(node);
            const finish = () => node.admin.finishMove(id, { lostPool: 'plain' });
            {
              await using driver = await node.start(`${when} ${step} 1`, true);
              await eventually(async () => assert.equal((await node.move(id))?.state, 'running'));
              await finish().catch(requireGone);
              await driver.ended();
            }
            {
              await using driver = await node.start(undefined, true);
              using client = driver.connect();
              await eventually(async () => assert.notEqual(await node.move(id), undefined));
              if ((await node.move(id))?.state !== 'done') await finish();
              assert.equal(await node.use(client, id, false), digest);
            }
            // The pool is there after all.
            await using driver = await node.start();
            using client = driver.connect();
            assert.equal(await node.pool(id), 'other');
            await node.admin.cancelMove(id);
            assert.equal(await node.use(client, id, false), digest);
            assert.deepEqual(readdirSync(scratch.join('plain', 'volumes')), []);
          });
        }
      }
    });

    test('after the first step of that, and the pool is there after all: the copy there is the volume again', async () => {
      using scratch = new Scratch('move-killed');
      const node = new Node(scratch, kind, command);
      const [id, digest] = await handedOver(node);
      {
        await using driver = await node.start('after move/generation 1', true);
        await eventually(async () => assert.equal((await node.move(id))?.state, 'running'));
        await node.admin.finishMove(id, { lostPool: 'plain' }).catch(requireGone);
        await driver.ended();
      }
      await using driver = await node.start();
      using client = driver.connect();
      await eventually(async () => assert.equal((await node.move(id))?.state, 'running'));
      await node.admin.cancelMove(id);
      assert.equal(await node.pool(id), 'plain');
      assert.equal(await node.use(client, id, false), digest);
    });
  });

/** A volume whose driver has died after the hand-over, before the commit. @returns its id and its digest */
async function handedOver(node: Node): Promise<readonly [id: string, digest: string]> {
  await using driver = await node.start('before move/complete 1');
  using client = driver.connect();
  const id = await node.volume.create(client, { pool: 'plain' });
  const digest = await node.use(client, id, true);
  await node.admin.startMove(id, 'other', undefined).catch(requireGone);
  await driver.ended();
  return [id, digest];
}

/** Kills the driver once some bytes are copied. */
async function diesCopying(driver: DriverProcess, node: Node, id: string): Promise<void> {
  await eventually(async () => assert.ok(BigInt((await node.move(id))?.doneBytes ?? 0) > 0n));
  await driver.kill();
  await driver.ended();
}

/** Waits for the death of the driver, or the end of the move without one: a pass that this move does not have. */
async function died(driver: DriverProcess, node: Node, id: string): Promise<void> {
  await eventually(async () => {
    const isDone = !driver.hasEnded && (await node.move(id).catch(() => undefined))?.state === 'done';
    assert.ok(driver.hasEnded || isDone);
  });
}

function requireGone(error: unknown): void {
  if (!(error instanceof AdminError && error.code === 'UNAVAILABLE')) throw error;
}
