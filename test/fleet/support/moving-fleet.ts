import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { fleetShapes } from '../../../src/cli/fleet/shapes.ts';
import { freePort } from '../../cluster/harness/api-server.ts';
import type { DriverCommand } from '../../crash/bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { TestVolume } from '../../support/life.ts';
import { Scratch } from '../../support/scratch.ts';
import { ApiDouble } from './api-double.ts';
import { ControllerProcess } from './controller-process.ts';
import { authorityIn, LinkedNode, type PoolKind, volumeOn } from './fleet.ts';
import type { Viewer } from './viewer.ts';

export const raw = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

type Attach = 'none' | 'required';

/** What an operator may do with moves. */
export const everything = ['moves', 'create:moves', 'delete:moves'];

/** A controller, whose view an operator asks, and two nodes whose volumes move. */
export class MovingFleet implements AsyncDisposable {
  readonly scratch = new Scratch('fleet-moves');
  readonly api: ApiDouble;
  readonly command: DriverCommand;
  controller: ControllerProcess | undefined;
  readonly nodes = new Map<string, LinkedNode>();
  readonly #movePorts = new Map<string, number>();
  #port = 0;

  readonly #attach: Attach;
  readonly #kind: PoolKind;
  /** For a node, beside what all have. */
  readonly environments = new Map<string, Readonly<Record<string, string>>>();

  private constructor(api: ApiDouble, command: DriverCommand, attach: Attach, kind: PoolKind) {
    this.api = api;
    this.command = command;
    this.#attach = attach;
    this.#kind = kind;
  }

  static async start(command: DriverCommand, attach: Attach = 'none', kind: PoolKind = 'image'): Promise<MovingFleet> {
    const fleet = new MovingFleet(await ApiDouble.start(), command, attach, kind);
    try {
      for (const name of ['node-a', 'node-b']) fleet.api.known.csiNodes.add(name);
      await fleet.startController();
      for (const name of ['node-a', 'node-b']) await fleet.startNode(name);
      return fleet;
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
  }

  async startController(): Promise<void> {
    this.controller = await ControllerProcess.start(this.scratch, this.api, `c${randomUUID()}`, this.command.plain, {
      HOLDFAST_ATTACH: this.#attach,
      HOLDFAST_VIEW_ADDRESS: '127.0.0.1:0',
      ...(this.#port !== 0 && { HOLDFAST_LINK_ADDRESS: `127.0.0.1:${this.#port}` }),
    });
    this.#port = this.controller.port;
  }

  async startNode(name: string, crashAt?: string): Promise<void> {
    const { controller } = this;
    if (controller === undefined) throw new Error('no controller');
    // The same one after a restart, as on a real node.
    const port = this.#movePorts.get(name) ?? (await freePort());
    this.#movePorts.set(name, port);
    const node = this.nodes.get(name) ?? LinkedNode.prepare(this.api, name, [controller]);
    this.nodes.set(name, node);
    node.trust(authorityIn(this.api));
    await node.startDriver({
      command: this.command.plain,
      ...{ attach: this.#attach, kind: this.#kind },
      environment: {
        ...this.command.environment,
        HOLDFAST_MOVE_ADDRESS: `127.0.0.1:${port}`,
        ...(this.#kind === 'xfs' && { HOLDFAST_MOVE_SNAPSHOTS: 'true' }),
        ...this.environments.get(name),
        ...(crashAt !== undefined && { HOLDFAST_TEST_CRASH_AT: crashAt }),
      },
    });
  }

  node(name: string): LinkedNode {
    return this.nodes.get(name) ?? assert.fail(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.scratch;
    for (const node of this.nodes.values()) await node[Symbol.asyncDispose]();
    await this.controller?.[Symbol.asyncDispose]();
    await this.api[Symbol.asyncDispose]();
  }
}

/** Writes to the volume, or only reads it, as a pod on that node does. @returns its digest */
export async function use(fleet: MovingFleet, name: string, id: string, writes: boolean): Promise<string> {
  const node = fleet.node(name);
  const volume = new TestVolume(node.scratch, 'data', raw);
  using client = node.driver.connect();
  await volume.stage(client, id);
  await volume.publish(client, id);
  if (writes) {
    const file = openSync(volume.targetPath, 'r+');
    writeSync(file, randomBytes(1 << 20), 0, 1 << 20, (Math.floor(Math.random() * 40) + 1) << 20);
    fsyncSync(file);
    closeSync(file);
  }
  const digest = createHash('sha256').update(readFileSync(volume.targetPath)).digest('hex');
  await volume.unpublish(client, id);
  await volume.unstage(client, id);
  return digest;
}

/** The moves of the volume, as the controller tells them. */
export async function movesOf(fleet: MovingFleet, viewer: Viewer, id: string) {
  const { controller = assert.fail('no controller') } = fleet;
  const { result } = await viewer.see(controller, '/v1/moves?output=json');
  const { moves } = fleetShapes.moves.parse(JSON.parse(result));
  return moves.filter((move) => move.id === id && move.fromNode !== undefined);
}

export async function start(fleet: MovingFleet, viewer: Viewer, id: string, to: string, more = '') {
  const { controller = assert.fail('no controller') } = fleet;
  return viewer.post(controller, `/v1/moves/start?output=json&volume=${id}&node=${to}${more}`);
}

/** Started again until the nodes are linked. */
export async function started(fleet: MovingFleet, viewer: Viewer, id: string, to: string, more = ''): Promise<void> {
  await eventually(async () => {
    const { problems, status } = await start(fleet, viewer, id, to, more);
    assert.equal(status, 200, problems);
  });
}

/** Waits until a move of it has ended well. */
export async function moved(fleet: MovingFleet, viewer: Viewer, id: string): Promise<void> {
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    assert.ok(
      moves.some(({ state }) => state === 'done'),
      JSON.stringify(moves),
    );
  });
}

export async function created(fleet: MovingFleet): Promise<string> {
  const { controller = assert.fail('no controller') } = fleet;
  for (const node of ['node-a', 'node-b']) await controller.logged('inventory complete', { node });
  using client = controller.connect();
  const request = { ...volumeOn('node-a', 'data'), volume_capabilities: [raw] };
  return (await client.controller.CreateVolume(request)).volume?.volume_id ?? '';
}
