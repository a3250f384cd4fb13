import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { showMove } from '../../../src/admin/moving.ts';
import { adminService } from '../../../src/admin/service.ts';
import { changeFleet } from '../../../src/cli/fleet/change.ts';
import type { Output } from '../../../src/cli/output/output.ts';
import { controllerService } from '../../../src/controller/service.ts';
import { type Calls, callsOf } from '../../../src/csi/call.ts';
import { decode, encode, methodsOf } from '../../../src/csi/contract.ts';
import { fleetCalls } from '../../../src/fleet/controller/calls.ts';
import { FleetCapacity } from '../../../src/fleet/controller/capacity.ts';
import { EndedIds } from '../../../src/fleet/controller/ended.ts';
import { FleetMoves } from '../../../src/fleet/controller/fleet-moves.ts';
import { FleetState } from '../../../src/fleet/controller/fleet-state.ts';
import { LeftCopiesKeeper } from '../../../src/fleet/controller/keepers/left-copies-keeper.ts';
import { TakenBackKeeper } from '../../../src/fleet/controller/keepers/taken-back-keeper.ts';
import { NodeSession } from '../../../src/fleet/controller/node-session.ts';
import { Sessions } from '../../../src/fleet/controller/sessions.ts';
import type { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { persistentVolumes } from '../../../src/fleet/kubernetes/persistent-volumes.ts';
import { readTakenBack, type TakenBack, takingBackMs } from '../../../src/fleet/kubernetes/taken-back.ts';
import { VolumeRecords } from '../../../src/fleet/kubernetes/volume-records.ts';
import { changeCalls } from '../../../src/fleet/node/change.ts';
import { viewStreams } from '../../../src/fleet/node/look.ts';
import { copyCalls, moveCalls } from '../../../src/fleet/node/moves.ts';
import { NodeLink } from '../../../src/fleet/node/node-link.ts';
import { type Material, materialFor } from '../../../src/fleet/tls/material.ts';
import type { ChangeWishes } from '../../../src/fleet/view/request.ts';
import type { ChangedFleet } from '../../../src/fleet/view/start.ts';
import { switched } from '../../../src/move/switched.ts';
import { type ErrorCode, HoldfastError } from '../../../src/volume/errors.ts';
import { topologyKey } from '../../../src/volume/topology.ts';
import { ApiDouble } from '../../fleet/support/api-double.ts';
import { MemoryLink } from '../../fleet/support/memory-link.ts';
import { Random } from '../../support/random.ts';
import type { Scratch } from '../../support/scratch.ts';
import type { MovingNode } from '../two-nodes.ts';

const log = pino({ level: 'silent' });
const driverName = 'holdfast.csi.dev';
const place = { namespace: 'holdfast', name: 'holdfast-controller' };
const tellMs = 50;
/** Limit of the time that nodes get to report all they have. */
const longestTellingMs = 1_000;
const callMs = 20_000;

/** The status of a call that failed. */
class CallFailed extends HoldfastError {
  override readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A replica of the controller, with all that moves need of it. */
class Replica {
  readonly state = new FleetState();
  readonly sessions = new Sessions(this.state);
  readonly moves: FleetMoves;
  readonly fleet: ChangedFleet;
  readonly takenBack: TakenBackKeeper;
  readonly leftCopies: LeftCopiesKeeper;
  /** What sidecars ask for. */
  readonly calls: Calls;

  constructor(api: KubernetesApi, material: Material, nodes: readonly string[]) {
    const { sessions, state } = this;
    const records = new VolumeRecords(() => persistentVolumes(api, driverName));
    this.moves = new FleetMoves({ state, sessions, log, records, material: () => material });
    this.fleet = { api, place, state, sessions, driverName, moves: this.moves };
    // A minute has passed at each look.
    const now = () => Date.now() + takingBackMs + 1;
    this.takenBack = new TakenBackKeeper({ api, place, state, moves: this.moves, log, now });
    this.leftCopies = new LeftCopiesKeeper({ state, moves: this.moves, log });
    this.calls = fleetCalls(
      {
        ...{ state, sessions, log, ended: new EndedIds(), attach: 'none', sendClaim: undefined },
        capacity: new FleetCapacity(sessions, state),
        moves: this.moves,
        records,
        isForgottenByClass: async () => false,
      },
      { log },
    );
    state.expect(nodes);
  }
}

interface Linked {
  readonly node: MovingNode;
  readonly link: NodeLink;
  readonly cable: MemoryLink;
  readonly timer: NodeJS.Timeout;
}

/** A controller and the drivers of its nodes in one process: their code, but for Kubernetes and the links between controller and nodes. */
export class LivingFleet implements AsyncDisposable {
  readonly double: ApiDouble;
  readonly #api: KubernetesApi;
  readonly #names: readonly string[];
  readonly #material = materialFor(undefined, new Date());
  readonly #linked = new Map<string, Linked>();
  readonly #forgotten = new Set<string>();
  #replica: Replica;
  readonly #hearing: Disposable;
  #links = 0;

  private constructor(double: ApiDouble, api: KubernetesApi, names: readonly string[]) {
    this.double = double;
    this.#api = api;
    this.#names = names;
    this.#replica = new Replica(api, this.#material, names);
    this.#hearing = switched.subscribe(() => {
      for (const { link } of this.#linked.values()) link.look().catch(() => undefined);
    });
  }

  static async start(scratch: Scratch, names: readonly string[]): Promise<LivingFleet> {
    const double = await ApiDouble.start();
    double.known.objects.set('secrets/holdfast-controller', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { ...place, resourceVersion: '1' },
      data: {},
    });
    return new LivingFleet(double, double.client(scratch), names);
  }

  get state(): FleetState {
    return this.#replica.state;
  }

  get moves(): FleetMoves {
    return this.#replica.moves;
  }

  /** The note of the controller that a volume was taken back. */
  async takenBack(volumeId: string): Promise<TakenBack | undefined> {
    return (await readTakenBack(this.#api, place)).get(volumeId);
  }

  isLinked(name: string): boolean {
    return this.#linked.has(name);
  }

  isForgotten(name: string): boolean {
    return this.#forgotten.has(name);
  }

  /** A node links, unless it is forgotten. */
  async link(node: MovingNode): Promise<void> {
    this.cut(node.name);
    if (this.#forgotten.has(node.name)) return;
    const cable = new MemoryLink({ random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 });
    const { sessions, state } = this.#replica;
    const instance = `${++this.#links}`;
    new NodeSession(cable.controller, {
      ...{ node: node.name, driverName, controller: 'living', instance: 'living', host: '127.0.0.1' },
      ...{ state, log, moves: this.#replica.moves },
      hasOther: () => false,
      renew: async () => undefined,
      onReady: (session) => sessions.ready(session),
      onEnd: (session) => sessions.ended(session),
    });
    const hello = { node_id: node.name, driver_name: driverName, driver_version: '1', instance };
    const link = new NodeLink(cable.node, {
      hello,
      calls: servedBy(node),
      pools: node.pools,
      log,
      moves: movesOf(node),
    });
    const timer = setInterval(() => {
      try {
        link.tellMoves();
      } catch {
        // The driver is starting.
      }
      link.look().catch(() => undefined);
    }, tellMs);
    this.#linked.set(node.name, { node, link, cable, timer });
  }

  /** The link of a node to the controller ends. */
  cut(name: string): void {
    const linked = this.#linked.get(name);
    if (linked === undefined) return;
    this.#linked.delete(name);
    clearInterval(linked.timer);
    linked.link.end('cut by the test');
  }

  /** All that the nodes have to say is known to the controller. */
  async told(): Promise<void> {
    for (const { link } of this.#linked.values()) await link.look().catch(() => undefined);
    // A node whose pools are opening does not report all in time.
    const endsAtMs = Date.now() + longestTellingMs;
    const hasTold = (name: string) => {
      const node = this.state.node(name);
      return node?.isLinked === true && node.hasTold;
    };
    while (![...this.#linked.keys()].every(hasTold) && Date.now() < endsAtMs) await pause(5);
    for (const { link } of this.#linked.values()) link.tellMoves();
    await pause(20);
  }

  /** Another replica takes over. It knows what Kubernetes keeps. */
  async replaceController(): Promise<void> {
    const nodes = [...this.#linked.values()].map(({ node }) => node);
    for (const { name } of nodes) this.cut(name);
    this.#replica = new Replica(this.#api, this.#material, this.#names);
    this.state.forget([...this.#forgotten]);
    for (const node of nodes) await this.link(node);
  }

  /** An operator says that a node which is away never comes back. */
  forget(name: string): void {
    assert.ok(!this.#linked.has(name));
    this.#forgotten.add(name);
    this.state.forget([...this.#forgotten]);
  }

  remember(name: string): void {
    this.#forgotten.delete(name);
    this.state.forget([...this.#forgotten]);
  }

  /** The keepers' looks, as if a minute had passed. */
  async keep(): Promise<void> {
    await this.#replica.takenBack.look().catch(() => undefined);
    await this.#replica.leftCopies.look();
    await this.#replica.leftCopies.look();
    await this.#replica.takenBack.look().catch(() => undefined);
  }

  /** `kubectl holdfast …` @throws HoldfastError */
  async command(wishes: Pick<ChangeWishes, 'change' | 'node' | 'volume'> & Partial<ChangeWishes>): Promise<string> {
    const usual = {
      ...{ lostNode: undefined, lostPool: undefined, toPool: undefined, limitBytesPerSecond: undefined },
      ...{ withSnapshots: false, json: true, progress: false, dryRun: false, evenSo: false, undo: false },
    };
    const lines: string[] = [];
    const line = (text: string) => void lines.push(text);
    const output: Output = { line, problem: () => undefined, colours: false, width: undefined };
    await changeFleet(this.#replica.fleet, { ...usual, ...wishes }, output, AbortSignal.timeout(30_000));
    return lines.join('\n');
  }

  /** A call of a sidecar. @throws HoldfastError */
  async call<Response>(name: string, request: object): Promise<Response> {
    const method = methodsOf('csi.v1.Controller').find((each) => each.name === name) ?? assert.fail(name);
    const call = this.#replica.calls.unary.get(method.path) ?? assert.fail(name);
    const bytes = encode(method.requestType, request);
    const deadline = new Date(Date.now() + callMs);
    return new Promise((resolve, reject) => {
      void call({ bytes, deadline, isGone: () => false }, (reply) => {
        if ('response' in reply) return resolve(decode<Response>(method.responseType, reply.response));
        const { code, message, stack } = reply.failure;
        // A bug has a stack.
        reject(stack === undefined ? new CallFailed(code, message) : new Error(`${message}\n${stack}`));
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#hearing[Symbol.dispose]();
    for (const name of [...this.#linked.keys()]) this.cut(name);
    this.#api.close();
    await this.double[Symbol.asyncDispose]();
  }
}

function movesOf({ leavings, mover, nodes, port, snapshotLeavings }: MovingNode) {
  return { leavings, mover, nodes, snapshotLeavings, address: `127.0.0.1:${port}` };
}

function servedBy(node: MovingNode) {
  const { mover, name: nodeId, objects, pools } = node;
  const topology = { [topologyKey]: nodeId };
  const controller = controllerService({
    ...{
      nodeId,
      topology,
      pools,
      moves: mover,
      objects,
      expansion: 'controller',
      attach: 'none',
      maxVolumesPerNode: 0,
    },
  });
  const calls = callsOf({ controller }, { log });
  const moves = movesOf(node);
  const look = async ({ list }: { readonly list: string }) =>
    list === 'moves'
      ? { items: mover.sights().map((sight) => JSON.stringify(showMove(sight))), problems: [] }
      : { items: [], problems: [] };
  return {
    unary: new Map([
      ...calls.unary,
      ...changeCalls(adminService({ nodeId, pools, objects, mover }), { log }),
      ...copyCalls(mover, { log }),
      ...moveCalls(moves, { log }),
    ]),
    streams: new Map([...calls.streams, ...viewStreams(look, { log })]),
  };
}
