import { showEnded, showMove, showPlan } from '../../admin/moving.ts';
import type { Moving } from '../../admin/protocol.ts';
import { type CallOptions, unaryCalls } from '../../csi/call.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { MovesHandlers } from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { UnaryCall } from '../../csi/pipeline.ts';
import type { Copies } from '../../move/copies.ts';
import type { Mover, MoveSight, StartedMove } from '../../move/mover.ts';
import type { AdmissionKind, Leavings } from '../../move/nodes/leavings.ts';
import type { Nodes } from '../../move/nodes/nodes.ts';
import type { SnapshotLeavings } from '../../move/nodes/snapshot-leavings.ts';
import type { PeerMove, PeerOrder, TrashedCopy } from '../../move/peers.ts';
import { switched } from '../../move/switched.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { parseSnapshotId } from '../../volume/id.ts';
import { makeKey } from '../tls/certificate.ts';
import { generationIn, idIn } from './change.ts';

/** This node's part in moves between nodes. */
export interface NodeMoves {
  readonly mover: Mover;
  readonly leavings: Leavings;
  readonly snapshotLeavings: SnapshotLeavings;
  readonly nodes: Nodes;
  /** `HOST:PORT`, or `:PORT`. */
  readonly address: string;
}

/** Limit of reported moves: the ones that have ended longest ago are left out. */
const maxMoves = 500;
/** Limit of the snapshots that one of them names. */
const maxWaiting = 3;

/** The call with which the controller asks for a copy. Volumes of every node may move between its pools, and be left there. */
export function copyCalls({ copies }: Pick<Mover, 'copies'>, options: CallOptions): ReadonlyMap<string, UnaryCall> {
  return unaryCalls('holdfast.fleet.v1.Moves', copyHandlers(copies), options);
}

function copyHandlers(copies: Copies): Pick<MovesHandlers, 'ReadCopy'> {
  return {
    async ReadCopy({ volume_id }) {
      const { createdAt = '', elsewhere = '', isHere, trashed, ...copy } = await copies.look(idIn(volume_id));
      return {
        ...{ generation: BigInt(copy.generation), usable: copy.isVolume, elsewhere, created_at: createdAt },
        place: isHere === true ? 'POOL' : 'NONE',
        ...(trashed && { trashed: trashedOut(trashed) }),
      };
    },
  };
}

function trashedOut({ createdAt = '', elsewhere = '', generation }: TrashedCopy): Draft<wire.TrashedCopy> {
  return { generation: BigInt(generation), elsewhere, created_at: createdAt };
}

/** The calls with which the controller brokers moves between nodes. */
export function moveCalls(moves: NodeMoves, options: CallOptions): ReadonlyMap<string, UnaryCall> {
  const { leavings, mover, nodes, snapshotLeavings } = moves;
  const { copies } = mover;
  const handlers: MovesHandlers = {
    ...copyHandlers(copies),
    async AdmitMove({ kind, move_id: moveId, target_node: node, volume_id }) {
      requireText({ moveId, node });
      const move = { id: idIn(volume_id), moveId, node };
      if (kind === 'snapshots' || kind === 'snapshots-plan') {
        await snapshotLeavings.admit(move, kind === 'snapshots' ? 'order' : 'plan');
      } else if (kind === '') await admitAgain(moves, move);
      else await leavings.admit(move, kindIn(kind));
      return {};
    },
    async ConnectMove({ address, source_node: node }) {
      const { host, port } = addressIn(address);
      nodes.connect(node, { host, port });
      mover.connected(node);
      return {};
    },
    async PlanMove(request) {
      return { result: JSON.stringify(showPlan(await mover.planFrom(orderIn(request)))) };
    },
    async StartMove(request) {
      return started(await mover.startFrom(orderIn(request)));
    },
    async PlanMoveWithSnapshots(request) {
      return { result: JSON.stringify(showPlan(await mover.planFrom({ ...orderIn(request), withSnapshots: true }))) };
    },
    async StartMoveWithSnapshots(request) {
      return started(await mover.startFrom({ ...orderIn(request), withSnapshots: true }));
    },
    async CancelSnapshots({ even_so, move_id: moveId, source_node: node, volume_id }) {
      requireText({ moveId, node });
      const job = await mover.cancelSnapshotsFrom({ id: idIn(volume_id), moveId, node }, even_so);
      return { result: JSON.stringify(showEnded(job)) };
    },
    async ReadNote({ volume_id }) {
      const { at = '', generation = 0 } = (await copies.noteOf(parseSnapshotId(volume_id) ?? idIn(volume_id))) ?? {};
      return { generation: BigInt(generation), node: at };
    },
    async SettleCopy({ generation, node, volume_id }) {
      requireText({ node });
      await copies.settle(idIn(volume_id), generationIn(generation), node);
      switched.publish({ volumeId: volume_id });
      return {};
    },
    async DisclaimCopy({ generation, lost_pool: lostPool, source_node: source, volume_id }) {
      requireText({ source });
      // A copy that was handed over as the first one of its volume is of generation 0.
      const given = generation === 0n ? 0 : generationIn(generation);
      const pool = lostPool === '' ? undefined : lostPool;
      return { generation: BigInt(await copies.disclaim(idIn(volume_id), given, source, pool)) };
    },
    async OutdateCopy({ created_at, generation, node, taken_back_at: at, volume_id }) {
      requireText({ node, at });
      const by = {
        generation: generationIn(generation),
        node,
        at,
        createdAt: created_at === '' ? undefined : created_at,
      };
      const outdated = await copies.outdate(idIn(volume_id), by);
      if (outdated) switched.publish({ volumeId: volume_id });
      return { outdated };
    },
  };
  return unaryCalls('holdfast.fleet.v1.Moves', handlers, options);
}

function started({ plan, sight }: StartedMove): Draft<wire.MoveAnswer> {
  return { result: JSON.stringify({ plan: showPlan(plan), move: showMove(sight) }) };
}

/** Lets the target of an earlier order in: for the volume, for the snapshots that follow it, or for both. @throws why for neither */
async function admitAgain({ leavings, snapshotLeavings }: NodeMoves, move: PeerMove): Promise<void> {
  const [volume, snapshots] = await Promise.allSettled([
    leavings.admit(move, 'again'),
    snapshotLeavings.admit(move, 'again'),
  ]);
  if (volume.status === 'rejected' && snapshots.status === 'rejected') throw volume.reason;
}

/** Reports the moves of this node over one link, and asks for its certificate. */
export class MovesTeller {
  readonly #moves: NodeMoves;
  readonly #send: (message: Draft<wire.FromNode>) => void;
  readonly #keys = makeKey();
  #told = '';

  constructor(moves: NodeMoves, send: (message: Draft<wire.FromNode>) => void) {
    this.#moves = moves;
    this.#send = send;
  }

  askForCertificate(): void {
    this.#send({ certificate: { public_key: this.#keys.publicKey, address: this.#moves.address } });
  }

  async certified({ authorities, certificate }: wire.NodeCertificate): Promise<void> {
    await this.#moves.nodes.identify({ authorities, certificate, key: this.#keys.key });
  }

  /** @throws Unavailable while the driver starts */
  tell(): void {
    const moves = this.#moves.mover
      .sights()
      .sort((a, b) => Number(isRunning(b)) - Number(isRunning(a)) || (a.job.startedAt > b.job.startedAt ? -1 : 1))
      .slice(0, maxMoves)
      .map(toldOf);
    const text = JSON.stringify(moves);
    // Also that there are none: what an earlier link has reported is void.
    if (text === this.#told) return;
    this.#told = text;
    this.#send({ moves: { moves } });
  }
}

function isRunning({ job }: MoveSight): boolean {
  return job.state === 'running';
}

function toldOf(sight: MoveSight): Draft<wire.MoveTold> {
  const { id, moveId, node = '', ticket = '', to } = sight.job;
  const isComing = to !== '' && node !== '';
  return {
    ...{ move_id: moveId, volume_id: id, ticket },
    unconnected: sight.isUnconnected || sight.snapshots?.isUnconnected === true,
    source_node: isComing ? node : '',
    sight: JSON.stringify(withoutLeft(showMove(sight))),
  };
}

/** The reasons of hundreds of snapshots are too long for a message. A copy that waits may be the last one: some of those are named. */
function withoutLeft({ snapshots, ...move }: Moving): Moving {
  if (snapshots === undefined) return move;
  const waiting = snapshots.left.filter(({ cameFrom }) => cameFrom !== undefined);
  return { ...move, snapshots: { ...snapshots, left: waiting.slice(0, maxWaiting) } };
}

function orderIn(request: wire.StartMoveRequest): PeerOrder {
  const { limit, move_id: moveId, source_node: node, ticket, to_pool: to, volume_id } = request;
  requireText({ moveId, node });
  return {
    ...{ id: idIn(volume_id), moveId, node, ticket, to: to === '' ? undefined : to },
    limitBytesPerSecond: limit === 0n ? undefined : limit,
  };
}

/** @throws InvalidArgument */
function kindIn(text: string): AdmissionKind {
  if (text === 'order' || text === 'plan') return text;
  throw new InvalidArgument(`${JSON.stringify(text.slice(0, 64))} is no kind of an admission.`);
}

function requireText(texts: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(texts)) if (text === '') throw new InvalidArgument(`${name} is empty.`);
}

/** @throws InvalidArgument */
function addressIn(text: string): { readonly host: string; readonly port: number } {
  const at = text.lastIndexOf(':');
  const host = text.slice(0, at).replace(/^\[|\]$/g, '');
  const port = Number(text.slice(at + 1));
  if (at < 1 || !Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new InvalidArgument(`${JSON.stringify(text.slice(0, 64))} is no address of a node.`);
  }
  return { host, port };
}
