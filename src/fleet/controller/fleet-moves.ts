import { createHmac, randomUUID, timingSafeEqual, X509Certificate } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { z } from 'zod';
import { moving, plannedMove, startedMove } from '../../admin/protocol.ts';
import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { peerName } from '../../move/nodes/names.ts';
import type { CopySight } from '../../move/peers.ts';
import { FailedPrecondition, HoldfastError, InternalError, NotFound, Unavailable } from '../../volume/errors.ts';
import { parseSnapshotId } from '../../volume/id.ts';
import type { Noted } from '../../volume/move/rule.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import type { RecordsOfVolumes } from '../kubernetes/volume-records.ts';
import { routeById } from '../routing/by-id.ts';
import { silentNamed } from '../routing/owner.ts';
import { certifyNode } from '../tls/certificate.ts';
import type { Material } from '../tls/material.ts';
import type { FleetState } from './fleet-state.ts';
import { requireOnlyAt } from './other-copies.ts';
import { PassedOn } from './passed-on.ts';
import { recordedNodes, routeRecorded } from './recorded-owner.ts';
import type { Sessions } from './sessions.ts';

export type MoveShown = z.infer<typeof moving>;

/** A move as a node reports it. */
export interface ToldMove {
  readonly node: string;
  readonly moveId: string;
  readonly move: MoveShown;
}

export type StartedMove = z.infer<typeof startedMove> & { readonly moveId: string };

export interface MoveOrder {
  readonly volumeId: string;
  readonly toNode: string;
  /** undefined: the target chooses. */
  readonly toPool: string | undefined;
  readonly limitBytesPerSecond: bigint | undefined;
  /** The snapshots of the volume follow it. If it is on that node already, those of another node alone. */
  readonly withSnapshots: boolean;
}

/** The copy that became the volume. */
export interface TakenBackCopy {
  readonly volumeId: string;
  readonly generation: number;
  readonly node: string;
  /** RFC 3339. */
  readonly takenBackAt: string;
  /** RFC 3339: when the volume was made. */
  readonly createdAt?: string | undefined;
}

/** The note of a node that it has handed a volume over. */
export interface HandedOver extends Pick<Noted, 'generation'> {
  /** The other node. */
  readonly at: string;
}

/** The nodes of snapshots that were handed over. */
export interface HandedOverSnapshots {
  readonly source: string;
  readonly target: string;
  /** Their ids. */
  readonly ids: readonly string[];
}

export interface FleetMovesOptions {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly log: Logger;
  /** Returns the PersistentVolumes of a volume. */
  readonly records: RecordsOfVolumes;
  /** Undefined until it is known. */
  readonly material: () => Material | undefined;
}

/** A node is certified for that time, and asks again with each link. */
const certifiedDays = 30;
const earlierMs = 60 * 60_000;
const callMs = 40_000;
/** The shortest pause between two introductions for one move. */
const againMs = 2_000;

/**
 * Brokers the moves of volumes between nodes. It keeps nothing that a restart may not lose: the nodes report
 * what moves, and the ticket that the target keeps shows that a move was brokered.
 */
export class FleetMoves {
  readonly #options: FleetMovesOptions;
  readonly #told = new Map<string, readonly wire.MoveTold[]>();
  readonly #addresses = new Map<string, string>();
  /** Moves that are being introduced. */
  readonly #introducing = new Set<string>();

  constructor(options: FleetMovesOptions) {
    this.#options = options;
  }

  /** The certificate of a node, for other nodes. @param host that its link comes from */
  certify(node: string, { address, public_key: publicKey }: wire.CertificateRequest, host: string): NodeCertified {
    const material = this.#options.material();
    if (material === undefined) throw new Unavailable('The certificates are not known yet.');
    const at = address.startsWith(':') ? `${host.includes(':') ? `[${host}]` : host}${address}` : address;
    this.#addresses.set(node, at);
    const [newest = ''] =
      material['ca.crt'].match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/) ?? [];
    const commonName = new X509Certificate(newest).subject.replace(/^CN=/, '');
    const certificate = certifyNode(
      { dnsName: peerName(node), publicKey: Buffer.from(publicKey) },
      { certificate: newest, key: material['ca.key'], commonName },
      { from: new Date(Date.now() - earlierMs), days: certifiedDays },
    );
    return { certificate, authorities: material['ca.crt'] };
  }

  /** All moves of a node. Those that wait for their source are brought together with it, if they were brokered. */
  told(node: string, { moves }: wire.MovesTold): void {
    this.#told.set(node, moves);
    for (const move of moves) if (move.unconnected) void this.#introduceAgain(node, move);
  }

  /**
   * The moves that nodes report, the oldest first. Those from another node are listed only if they were brokered.
   * @param volumeId of the only volume that is wanted
   */
  list(volumeId?: string): ToldMove[] {
    const all = this.#all(volumeId);
    // The source tells it too, and how far it has come only the target knows.
    const coming = new Set(all.filter(({ move }) => move.fromNode !== undefined).map(({ move }) => move.id));
    return all.filter(({ move }) => move.toNode === undefined || !coming.has(move.id));
  }

  /** Also those that both ends report. */
  #all(volumeId: string | undefined): ToldMove[] {
    const { state } = this.#options;
    // A node that is lost may have committed a copy that was given up since.
    const counted = [...this.#told].filter(([node]) => !state.isKeptOut(node));
    return counted
      .flatMap(([node, moves]) =>
        moves
          .filter((told) => volumeId === undefined || told.volume_id === volumeId)
          .flatMap((told) => {
            const move = sightIn(told);
            return move !== undefined && this.#isTrue(node, told, move) ? [{ node, moveId: told.move_id, move }] : [];
          }),
      )
      .sort((a, b) => (a.move.startedAt < b.move.startedAt ? -1 : 1));
  }

  /**
   * The node that the volume has moved to, or may have by now, if that is not the one which seems to have it; undefined: none.
   * Inventories come later than the switch.
   * @param withinMs for a move that has ended: no longer ago
   */
  movedTo(volumeId: string, from: string, withinMs = Number.POSITIVE_INFINITY): string | undefined {
    // A node can say anything of moves between its own pools.
    const last = this.list(volumeId).findLast(({ move }) => move.fromNode !== undefined);
    if (last === undefined || last.node === from || last.move.fromNode !== from) return undefined;
    const { endedAt } = last.move;
    if (endedAt !== undefined && Date.now() - Date.parse(endedAt) > withinMs) return undefined;
    const { state } = this.#options;
    const isLinked = state.node(last.node)?.isLinked === true;
    const hasIt = isLinked || state.owners(volumeId).some(({ node }) => node === last.node);
    const isThere = last.move.state === 'done' ? hasIt : last.move.state === 'running' && isLinked;
    return isThere ? last.node : undefined;
  }

  /** The nodes that its PersistentVolumes name, and that may have it although they do not say so. @throws Unavailable */
  async recordedSilent(volumeId: string, having: string): Promise<readonly string[]> {
    const { records, state } = this.#options;
    const recorded = recordedNodes(this, volumeId, await records.of(volumeId));
    return silentNamed(state, recorded, having).map(({ name }) => name);
  }

  /**
   * True if the last move of the volume to that node has ended before it was handed over: that node says so, or the one that made the
   * volume, which has it still. Its PersistentVolume may name that node, as it is changed before the volume moves.
   */
  gaveUp(volumeId: string, target: string): boolean {
    const { state } = this.#options;
    const owners = state.owners(volumeId);
    if (owners.some(({ node }) => node === target)) return false;
    const all = this.#all(volumeId);
    const arriving = all.findLast(({ move, node }) => node === target && move.fromNode !== undefined)?.move;
    const isThere = state.node(target)?.isLinked === true;
    if (isThere && (arriving?.state === 'failed' || arriving?.state === 'cancelled')) return true;
    const first = owners.find(({ isNative }) => isNative)?.node;
    const leaving = all.findLast(({ move, node }) => node === first && move.toNode === target)?.move;
    if (leaving?.state !== 'cancelled') return false;
    // Another one to that node may have arrived since.
    return arriving?.state !== 'done' || arriving.startedAt < leaving.startedAt;
  }

  #isTrue(node: string, told: wire.MoveTold, { fromNode, id }: MoveShown): boolean {
    const { source_node: source, volume_id: volumeId } = told;
    if (id !== volumeId || (fromNode ?? '') !== source) return false;
    return source === '' || this.#isBrokered(node, told);
  }

  /** Nothing is changed. @throws HoldfastError: why it cannot move there */
  async plan(order: MoveOrder): Promise<z.infer<typeof plannedMove>> {
    const rpc = order.withSnapshots ? 'PlanMoveWithSnapshots' : 'PlanMove';
    const { moveId, source } = await this.#prepare(order, 'plan');
    return this.#atTarget(rpc, order, { moveId, source, ticket: '' }, plannedMove);
  }

  async start(order: MoveOrder): Promise<StartedMove> {
    // The order ends an earlier one at the source. A node that takes no snapshots along refuses it before that.
    if (order.withSnapshots) await this.plan(order);
    const { moveId, source } = await this.#prepare(order, 'order');
    const { toNode: target, volumeId } = order;
    const ticket = this.#ticket({ volumeId, moveId, source, target });
    const rpc = order.withSnapshots ? 'StartMoveWithSnapshots' : 'StartMove';
    const started = await this.#atTarget(rpc, order, { moveId, source, ticket }, startedMove);
    this.#noteStarted(target, {
      ...{ move_id: moveId, volume_id: volumeId, source_node: source, ticket, unconnected: false },
      sight: JSON.stringify(started.move),
    });
    return { ...started, moveId };
  }

  /** The target reports it once a second: until then a deletion would go to the source alone. */
  #noteStarted(target: string, started: wire.MoveTold): void {
    const told = this.#told.get(target) ?? [];
    const isTold = told.some((each) => each.move_id === started.move_id && sightIn(each)?.state !== 'failed');
    if (!isTold) this.#told.set(target, [...told.filter((each) => each.move_id !== started.move_id), started]);
  }

  /**
   * The word of a node that a volume was handed over to, and that has nothing of it.
   * @param lostPool the pool of it that the volume came to, whose disk is lost
   * @throws HoldfastError if it has, or may have, or is moving it
   */
  async disclaim(
    node: string,
    {
      generation,
      lostPool = '',
      source,
      volumeId,
    }: {
      readonly volumeId: string;
      readonly generation: number;
      readonly source: string;
      readonly lostPool?: string | undefined;
    },
  ): Promise<number> {
    const request = {
      ...{ volume_id: volumeId, generation: BigInt(generation), source_node: source, lost_pool: lostPool },
    };
    const bytes = await this.#send(node, 'DisclaimCopy', request);
    return Number(decode<wire.DisclaimCopyAnswer>(disclaimedType, bytes).generation);
  }

  /** The copy of a volume that a node has. @throws HoldfastError */
  async copyAt(node: string, volumeId: string): Promise<CopySight> {
    const bytes = await this.#send(node, 'ReadCopy', { volume_id: volumeId });
    const { place, trashed, usable, ...copy } = decode<wire.CopyTold>(copyType, bytes);
    const generation = (told: bigint) => {
      if (told <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(told);
      throw new InternalError(`Node ${node} says that volume ${volumeId} is of generation ${told}: look there.`);
    };
    const told = ({ created_at: createdAt, elsewhere, ...each }: Omit<wire.TrashedCopy, '$type'>) => ({
      generation: generation(each.generation),
      ...(elsewhere !== '' && { elsewhere }),
      ...(createdAt !== '' && { createdAt }),
    });
    return {
      ...{ ...told(copy), isVolume: usable },
      ...(place !== 'UNKNOWN' && { isHere: place === 'POOL' }),
      ...(trashed && { trashed: told(trashed) }),
    };
  }

  /**
   * The other node that a volume or snapshot has gone to from this one, by its note; undefined: none, or it was deleted here.
   * @throws HoldfastError
   */
  async wentTo(id: string, from: string): Promise<string | undefined> {
    return (await this.handedOverBy(from, id))?.at;
  }

  /** The same, with the generation that it has had there. @throws HoldfastError */
  async handedOverBy(node: string, id: string): Promise<HandedOver | undefined> {
    // One that moves nothing between nodes has no note.
    if (!this.#addresses.has(node)) return undefined;
    try {
      const { at, generation } = await this.noteAt(node, id);
      return at === undefined ? undefined : { at, generation };
    } catch (error) {
      // Its driver is older.
      if (isRefusal(error) || (parseSnapshotId(id) !== undefined && isUnknown(error))) return undefined;
      throw error;
    }
  }

  /** The note of a node about a volume or snapshot. @throws HoldfastError, also if its driver is older */
  async noteAt(node: string, id: string): Promise<Omit<Noted, 'node'>> {
    const told = decode<wire.NoteTold>(noteType, await this.#send(node, 'ReadNote', { volume_id: id }));
    return { generation: Number(told.generation), ...(told.node !== '' && { at: told.node }) };
  }

  /** A node that was lost may have an earlier copy: it is used no more. @throws HoldfastError, also while it is in use */
  async outdate(
    lostNode: string,
    { createdAt, generation, node, takenBackAt, volumeId }: TakenBackCopy,
  ): Promise<{ readonly isOutdated: boolean }> {
    const request = {
      ...{ volume_id: volumeId, generation: BigInt(generation), node },
      ...{ taken_back_at: takenBackAt, created_at: createdAt ?? '' },
    };
    const bytes = await this.#send(lostNode, 'OutdateCopy', request);
    return { isOutdated: decode<wire.OutdateCopyAnswer>(outdatedType, bytes).outdated };
  }

  /** The source of a move has not heard of its end. @throws FailedPrecondition unless it has handed the volume over to that node */
  async settle(
    source: string,
    { generation, node, volumeId }: Pick<TakenBackCopy, 'generation' | 'node' | 'volumeId'>,
  ): Promise<void> {
    await this.#send(source, 'SettleCopy', { volume_id: volumeId, generation: BigInt(generation), node });
  }

  /**
   * This node, and the other one with which it moves the volume now, or has failed to. An end of an earlier move may have the
   * volume by now, by a disk that was put into it.
   */
  endsOf(volumeId: string, node: string): string[] {
    const open = this.list(volumeId).filter(
      ({ move, node: teller }) =>
        (teller === node || move.fromNode === node || move.toNode === node) &&
        (move.state === 'running' || move.state === 'failed'),
    );
    const running = open.filter(({ move }) => move.state === 'running');
    const counted = running.length > 0 ? running : open;
    const ends = counted.flatMap(({ move, node: teller }) => [teller, move.fromNode, move.toNode]);
    return [...new Set([node, ...ends.filter((end) => end !== undefined)])];
  }

  /**
   * The target of a move asks its source before it ends. This needs no ticket, whose key may be another one by now: an operator orders
   * it, and the source lets in only the target of a move that it knows.
   */
  async beforeCancel(node: string, volumeId: string): Promise<void> {
    const all = this.#coming(volumeId).filter((each) => each.node === node);
    // Its snapshots may have been ordered alone, after it had moved.
    const isFailed = (move: MoveShown | undefined) => move?.state === 'failed' || move?.snapshots?.state === 'failed';
    const coming =
      all.find(({ told }) => isRunning(sightIn(told))) ?? all.find(({ told }) => isFailed(sightIn(told))) ?? all[0];
    if (coming === undefined) return;
    const { move_id: moveId, source_node: source } = coming.told;
    await this.#introduce(node, source, { volumeId, moveId, kinds: [''] }).catch((error: unknown) => {
      // The source has ended it: the target hears that.
      if (!isRefusal(error)) throw error;
    });
  }

  /**
   * Snapshots of a volume that this node has handed over, or that were handed over to it, as the one says that they leave. The other one runs no
   * order of them; undefined: there are none, or the volume itself moves.
   */
  handedOver(volumeId: string, node: string): HandedOverSnapshots | undefined {
    const isMoving = this.#all(volumeId).some(
      ({ move }) => move.state === 'running' || (move.fromNode !== undefined && isRunning(move)),
    );
    if (isMoving) return undefined;
    return this.#handedOver(volumeId).find(({ source, target }) => source === node || target === node);
  }

  #handedOver(volumeId: string): HandedOverSnapshots[] {
    return this.#all(volumeId).flatMap(({ move: { snapshots, toNode: target }, node: source }) =>
      target === undefined || snapshots?.state !== 'running'
        ? []
        : [{ source, target, ids: snapshots.left.map(({ id }) => id) }],
    );
  }

  /**
   * They are the snapshots again on the node that they come from. The other one may know nothing of them.
   * @throws HoldfastError, also if a third node has one, by the disk of the other one
   */
  async cancelSnapshots(
    { ids, source, target }: HandedOverSnapshots,
    { isEvenSo, volumeId }: { readonly volumeId: string; readonly isEvenSo: boolean },
  ): Promise<MoveShown> {
    for (const id of ids) requireOnlyAt(this.#options.state, id, [source, target]);
    const moveId = randomUUID();
    // By its fence the source knows that node.
    await this.#introduce(target, source, { volumeId, moveId, kinds: [''] });
    const request = { volume_id: volumeId, move_id: moveId, source_node: source, even_so: isEvenSo };
    return this.#call(target, 'CancelSnapshots', request, moving);
  }

  #coming(volumeId: string): { readonly node: string; readonly told: wire.MoveTold }[] {
    return [...this.#told].flatMap(([node, moves]) =>
      moves.filter((told) => told.volume_id === volumeId && told.source_node !== '').map((told) => ({ node, told })),
    );
  }

  async #prepare(
    { toNode, volumeId, withSnapshots }: MoveOrder,
    kind: 'order' | 'plan',
  ): Promise<{ readonly moveId: string; readonly source: string }> {
    const { records, state } = this.#options;
    const route = await routeRecorded({ moves: this, records, state }, () => routeById(state, volumeId));
    if (route.to !== 'node') throw new NotFound(`There is no volume ${volumeId} on any node.`);
    if (state.node(toNode) === undefined) throw new NotFound(`There is no node ${toNode} with the driver.`);
    const isThere = route.node === toNode;
    if (isThere && !withSnapshots) throw new FailedPrecondition(`volume ${volumeId} is on node ${toNode} already.`);
    if (state.node(toNode)?.isLinked !== true) throw awayFrom(toNode);
    if (isThere) {
      const source = this.#withRest(volumeId, toNode);
      const moveId = randomUUID();
      await this.#introduce(toNode, source, { volumeId, moveId, kinds: [ofSnapshots[kind]] });
      return { moveId, source };
    }
    const source = route.node;
    const { told } =
      this.#coming(volumeId).find((each) => each.node === toNode && each.told.source_node === source) ?? {};
    const sight = told && sightIn(told);
    // Its source would give the one up that runs.
    if (sight?.state === 'running') {
      throw new FailedPrecondition(
        `volume ${volumeId} is moving to node ${toNode} already: kubectl holdfast move --resume CLAIM takes it up again.`,
      );
    }
    // A move that failed is taken up where it was.
    const isResumed = told !== undefined && sight?.state === 'failed' && this.#isBrokered(toNode, told);
    const moveId = isResumed ? told.move_id : randomUUID();
    // First the one that a source may refuse which takes none along.
    const kinds = [...(withSnapshots ? [ofSnapshots[kind]] : []), kind];
    await this.#introduce(toNode, source, { volumeId, moveId, kinds });
    return { moveId, source };
  }

  /** A node that has snapshots of a volume which is on another one. @throws FailedPrecondition, Unavailable */
  #withRest(volumeId: string, node: string): string {
    const { state } = this.#options;
    const moving = this.#coming(volumeId).find((each) => each.node === node && isRunning(sightIn(each.told)));
    if (moving !== undefined) {
      throw new FailedPrecondition(
        `the snapshots of volume ${volumeId} are following it to node ${node} already: kubectl holdfast move status.`,
      );
    }
    const all = [...state.ids('SNAPSHOT', ({ sourceId }) => sourceId === volumeId).keys()];
    const others = all.filter((other) => other !== node).sort();
    const listing = others.find((other) => state.node(other)?.isLinked === true) ?? others[0];
    // One that was handed over is in no list, and this node may know nothing of it.
    const source = listing ?? this.#handedOver(volumeId).find(({ target }) => target === node)?.source;
    if (source !== undefined) return source;
    throw new FailedPrecondition(
      `volume ${volumeId} is on node ${node} already, and no other node has a snapshot of it.`,
    );
  }

  /** The source lets the target in, and the target knows where it is. */
  async #introduce(
    target: string,
    source: string,
    { kinds, moveId, volumeId }: { readonly moveId: string; readonly volumeId: string; readonly kinds: AdmissionKinds },
  ): Promise<void> {
    const address = this.#addresses.get(source);
    if (address === undefined) {
      throw new FailedPrecondition(
        `node ${source} has not said where other nodes reach it: HOLDFAST_MOVE_ADDRESS is not set there, or its driver is older.`,
      );
    }
    const admission = { volume_id: volumeId, move_id: moveId, target_node: target };
    let refusal: unknown;
    for (const kind of kinds) {
      try {
        await this.#send(source, 'AdmitMove', { ...admission, kind });
      } catch (error) {
        if (kind.startsWith('snapshots') && isUnknown(error)) throw takesNone(source);
        // A target that was ordered before has to hear from the source why the move has ended.
        if (kind !== '' || !isRefusal(error)) throw error;
        refusal = error;
      }
    }
    await this.#send(target, 'ConnectMove', { source_node: source, address });
    if (refusal !== undefined) throw refusal;
  }

  /** Only what a ticket shows to be brokered: no node gets at a volume by saying that it moves. */
  async #introduceAgain(node: string, told: wire.MoveTold, isFirst = true): Promise<void> {
    const { move_id: moveId, source_node: source, volume_id: volumeId } = told;
    const key = `${node} ${moveId}`;
    if (this.#introducing.has(key)) return;
    this.#introducing.add(key);
    const { log } = this.#options;
    try {
      if (!this.#isBrokered(node, told)) {
        log.warn({ node, volume_id: volumeId }, 'a node tells of a move that was not brokered here');
        return;
      }
      await this.#introduce(node, source, { volumeId, moveId, kinds: [''] });
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      const facts = { node, source, volume_id: volumeId, reason };
      if (isFirst) log.warn(facts, 'the nodes of a move cannot be brought together yet');
    } finally {
      await delay(againMs, undefined, { ref: false });
      this.#introducing.delete(key);
    }
    // The other node may come back without a word of this one, which tells changes only.
    const now = this.#told.get(node)?.find((each) => each.move_id === moveId);
    const isLinked = this.#options.state.node(node)?.isLinked === true;
    if (isLinked && now?.unconnected === true) void this.#introduceAgain(node, now, false);
  }

  #atTarget<T>(
    rpc: 'PlanMove' | 'PlanMoveWithSnapshots' | 'StartMove' | 'StartMoveWithSnapshots',
    { limitBytesPerSecond, toNode, toPool, volumeId }: MoveOrder,
    { moveId, source, ticket }: { readonly moveId: string; readonly source: string; readonly ticket: string },
    schema: z.ZodType<T>,
  ): Promise<T> {
    const request = {
      ...{ volume_id: volumeId, move_id: moveId, source_node: source, ticket },
      ...{ to_pool: toPool ?? '', limit: limitBytesPerSecond ?? 0n },
    };
    return this.#call(toNode, rpc, request, schema);
  }

  #ticket(brokered: Brokered): string {
    const { 'move.key': key } = this.#options.material() ?? {};
    if (key === undefined) throw new Unavailable('The certificates are not known yet; try again.');
    return ticketBy(key, brokered);
  }

  #isBrokered(target: string, { move_id: moveId, source_node: source, ticket, volume_id: volumeId }: wire.MoveTold) {
    const { 'ca.key': earlierKey, 'move.key': key } = this.#options.material() ?? {};
    if (key === undefined || earlierKey === undefined) {
      throw new Unavailable('The certificates are not known yet; try again.');
    }
    // Earlier controllers had no separate key.
    return [key, earlierKey].some((each) => isEqual(ticket, ticketBy(each, { volumeId, moveId, source, target })));
  }

  async #call<T>(node: string, rpc: Rpc, request: object, schema: z.ZodType<T>): Promise<T> {
    const { result } = decode<wire.MoveAnswer>(answerType, await this.#send(node, rpc, request));
    const parsed = parseJsonInput(schema, result);
    if ('data' in parsed) return parsed.data;
    throw new InternalError(`Node ${node} has answered in words that this controller does not know: look there.`);
  }

  async #send(node: string, rpc: Rpc, request: object): Promise<Buffer> {
    const { sessions, state } = this.#options;
    if (state.node(node)?.isLinked !== true) throw awayFrom(node);
    const bytes = encode(contract.lookupType(`holdfast.fleet.v1.${requestTypes[rpc]}`), request);
    const deadline = new Date(Date.now() + callMs);
    const method = `/holdfast.fleet.v1.Moves/${rpc}`;
    try {
      return await sessions.get(node).calls.call({ method, request: bytes, deadline });
    } catch (error) {
      if (!(error instanceof PassedOn) || error.code !== 'UNIMPLEMENTED') throw error;
      if (rpc === 'PlanMoveWithSnapshots' || rpc === 'StartMoveWithSnapshots') throw takesNone(node);
      throw new FailedPrecondition(
        `The driver of node ${node} moves no volumes between nodes: it is older, or HOLDFAST_MOVE_ADDRESS is not set there.`,
      );
    }
  }
}

function takesNone(node: string): FailedPrecondition {
  return new FailedPrecondition(
    `The driver of node ${node} takes no snapshots along to another node: it is older, or HOLDFAST_MOVE_ADDRESS is not set there. Nothing was changed.`,
  );
}

function awayFrom(node: string): Unavailable {
  return new Unavailable(`Node ${node} is away; try again when it is back.`);
}

const answerType = contract.lookupType('holdfast.fleet.v1.MoveAnswer');
const copyType = contract.lookupType('holdfast.fleet.v1.CopyTold');
const noteType = contract.lookupType('holdfast.fleet.v1.NoteTold');
const disclaimedType = contract.lookupType('holdfast.fleet.v1.DisclaimCopyAnswer');
const outdatedType = contract.lookupType('holdfast.fleet.v1.OutdateCopyAnswer');

const requestTypes = {
  AdmitMove: 'AdmitMoveRequest',
  ConnectMove: 'ConnectMoveRequest',
  PlanMove: 'StartMoveRequest',
  StartMove: 'StartMoveRequest',
  ReadCopy: 'ReadCopyRequest',
  ReadNote: 'ReadCopyRequest',
  CancelSnapshots: 'CancelSnapshotsRequest',
  OutdateCopy: 'OutdateCopyRequest',
  SettleCopy: 'SettleCopyRequest',
  DisclaimCopy: 'DisclaimCopyRequest',
  PlanMoveWithSnapshots: 'StartMoveRequest',
  StartMoveWithSnapshots: 'StartMoveRequest',
} as const;
type Rpc = keyof typeof requestTypes;

/** The kinds of proto/fleet.proto. */
type AdmissionKinds = readonly ('' | 'order' | 'plan' | 'snapshots' | 'snapshots-plan')[];

/** The kinds of the same admission for snapshots. */
const ofSnapshots = { order: 'snapshots', plan: 'snapshots-plan' } as const;

/** True if the volume moves, or its snapshots follow it. */
function isRunning(move: MoveShown | undefined): boolean {
  return move?.state === 'running' || move?.snapshots?.state === 'running';
}

/** An older driver does not know what it was asked. */
function isUnknown(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'INVALID_ARGUMENT';
}

function isRefusal(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'FAILED_PRECONDITION';
}

/** No sight of a move is longer. */
const maxSight = 8192;

interface Brokered {
  readonly volumeId: string;
  readonly moveId: string;
  readonly source: string;
  readonly target: string;
}

function ticketBy(key: string, { moveId, source, target, volumeId }: Brokered): string {
  const text = JSON.stringify(['move', volumeId, moveId, source, target]);
  return createHmac('sha256', key).update(text).digest('base64url');
}

/** Takes the same time for all texts of that length. */
function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

export interface NodeCertified {
  readonly certificate: string;
  readonly authorities: string;
}

function sightIn({ sight }: wire.MoveTold): MoveShown | undefined {
  const parsed = parseJsonInput(moving, sight.slice(0, maxSight));
  return 'data' in parsed ? parsed.data : undefined;
}
