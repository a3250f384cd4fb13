import type { z } from 'zod';
import { moving, purged, restored } from '../../admin/protocol.ts';
import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { requireLost, requireNowhereElse, requireOnlyAt, type VolumeFacts } from '../../fleet/controller/lost-node.ts';
import { PassedOn } from '../../fleet/controller/passed-on.ts';
import { persistentVolumes } from '../../fleet/kubernetes/persistent-volumes.ts';
import { dropTakenBack, noteTakingBack, readTakenBack, settleTakenBack } from '../../fleet/kubernetes/taken-back.ts';
import { requireAllTold } from '../../fleet/routing/missing.ts';
import { askFleet, requireNode } from '../../fleet/view/ask.ts';
import type { ChangeWishes } from '../../fleet/view/request.ts';
import type { ChangedFleet } from '../../fleet/view/start.ts';
import { FailedPrecondition, HoldfastError, InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import { parseVolumeId } from '../../volume/id.ts';
import type { LostNode } from '../../volume/move/rule.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { findVolume, isMeant, type Known } from '../look/find-volume.ts';
import { printCancelled, printFinished, printResume } from '../move.ts';
import type { Output } from '../output/output.ts';
import { exitCodes } from '../output/output.ts';
import { printPurged, printRestored } from '../trash.ts';
import { forget } from './forget-node.ts';
import { moveVolume } from './move.ts';
import { itemShapes } from './shapes.ts';

const requestType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
const answerType = contract.lookupType('holdfast.fleet.v1.ChangeAnswer');

/** A change takes no longer on a healthy disk. */
const changeMs = 25_000;
/** Time that a node may take for a list. */
const searchMs = 10_000;

/**
 * Makes a change that a permitted user asks for: `kubectl holdfast trash restore`, `trash purge`,
 * `move cancel`, `move finish` and `forget-node`, and the page.
 * @throws HoldfastError
 */
export async function changeFleet(
  fleet: ChangedFleet,
  wishes: ChangeWishes,
  output: Output,
  signal: AbortSignal,
): Promise<number> {
  const { change, json } = wishes;
  if (change === 'forget') return forgetNode(fleet, wishes, output);
  if (change === 'move') return moveVolume(fleet, wishes, output, signal);
  if (change === 'cancel') {
    const { id, node } = await movingVolume(fleet, wishes, signal);
    const cancelled = await taking(fleet, wishes, { id, node }, async (lost) => {
      // A node that is lost hears of nothing.
      if (lost !== undefined) return send(fleet, { node, id, lost, rpc: 'CancelMove' }, moving);
      requireOnlyAt(fleet.state, id, fleet.moves.endsOf(id, node));
      await fleet.moves.beforeCancel(node, id);
      const disclaimed = await wordOfTarget(fleet, { id, node });
      return send(fleet, { node, id, disclaimed, rpc: 'CancelMove' }, moving);
    });
    printCancelled(output, cancelled, json);
    printResume(output, wishes);
    return exitCodes.ok;
  }
  if (change === 'finish') {
    const { id, node } = await movingVolume(fleet, wishes, signal);
    const { evenSo } = wishes;
    const finished = await taking(fleet, wishes, { id, node }, (lost) =>
      send(
        fleet,
        { node, id, lost, evenSo, lostPool: poolLost(fleet, wishes, { id, node }), rpc: 'FinishMove' },
        moving,
      ),
    );
    printFinished(output, finished, json);
    printResume(output, wishes);
    return exitCodes.ok;
  }
  const { id, node } = await trashedVolume(fleet, wishes, signal);
  if (change === 'restore') {
    const back = await taking(fleet, wishes, { id, node }, (lost) => {
      requireOnlyAt(fleet.state, id, [node]);
      const lostPool = poolLost(fleet, wishes, { id, node });
      return send(fleet, { node, id, lost, lostPool, rpc: 'RestoreTrashed' }, restored);
    });
    printRestored(output, back, json);
    printResume(output, wishes);
  } else printPurged(output, await send(fleet, { node, id, rpc: 'PurgeTrashed' }, purged), json);
  return exitCodes.ok;
}

/**
 * Has an order carried out which may say that a node is lost. Whether it is, is checked, and noted before; then the note gets the
 * generation by which the lost node knows that its copy is an earlier one.
 * @throws HoldfastError
 */
async function taking<T>(
  { api, driverName, moves, place, state }: ChangedFleet,
  { change, lostNode }: ChangeWishes,
  { id: volumeId, node }: Found,
  order: (lost: LostNode | undefined) => Promise<T>,
): Promise<T> {
  if (lostNode === undefined) return order(undefined);
  const wished = { lostNode, volumeId, node };
  requireLost(state, wished, await factsOf({ api, driverName, moves }, volumeId));
  const before = (await readTakenBack(api, place)).get(volumeId);
  let asked: string | undefined;
  if (before !== undefined && before.node !== node && before.node !== lostNode && before.generation === undefined) {
    // Refused while it takes the volume back.
    const { isVolume } = await moves.copyAt(before.node, volumeId);
    if (isVolume) {
      throw new FailedPrecondition(`volume ${volumeId} was taken back by node ${before.node}: it is there.`);
    }
    asked = before.at;
  }
  const note = await noteTakingBack(api, place, { ...wished, asked });
  let [isDone, isRefused] = [false, false];
  try {
    // The copy that was taken back last may be the one on the lost node.
    const result = await order({ lostNode, laterThan: note.earlier?.generation, words: note.words });
    isDone = true;
    return result;
  } catch (error) {
    isRefused = change === 'finish' && isRefusal(error);
    throw error;
  } finally {
    // Otherwise the controller does it a minute later.
    const seen = await moves.copyAt(node, volumeId).catch(() => undefined);
    // An answer may be lost, or the order given twice. Where it has failed, it may yet be carried out: the note stays.
    const isSure = seen !== undefined && (isDone || (seen.isVolume && seen.generation > 0));
    if (isSure) await settleTakenBack(api, place, volumeId, { note, seen }).catch(() => undefined);
    else if (isRefused && seen !== undefined) await dropTakenBack(api, place, volumeId, note).catch(() => undefined);
  }
}

async function factsOf(
  { api, driverName, moves }: Pick<ChangedFleet, 'api' | 'driverName' | 'moves'>,
  volumeId: string,
): Promise<VolumeFacts> {
  const recordedOn: string[] = [];
  for await (const { handle, node } of persistentVolumes(api, driverName)) {
    if (handle === volumeId && node !== undefined) recordedOn.push(node);
  }
  return { moves: moves.list(volumeId), recordedOn };
}

/**
 * Asks the node that a volume was handed over to, and that tells nothing of it, for its word that it has given the copy up: it was
 * installed again. It may have lost the note that the volume has gone on from there, so no third node may have it.
 * @returns undefined if the volume was not handed over, or the other node is away, or has its part in the move
 * @throws HoldfastError
 */
async function wordOfTarget(fleet: ChangedFleet, { id, node }: Found): Promise<number | undefined> {
  const { moves, state } = fleet;
  const copy = await moves.copyAt(node, id).catch(() => undefined);
  // Where that has no copy, nothing would be taken back.
  const target = copy?.isVolume === false && copy.createdAt !== undefined ? copy.elsewhere : undefined;
  if (copy === undefined || target === undefined || state.node(target)?.isLinked !== true) return undefined;
  if (moves.list(id).some((told) => told.node === target && told.move.state !== 'cancelled')) return undefined;
  requireNowhereElse(state, { volumeId: id, node, lostNode: target }, await factsOf(fleet, id));
  return moves.disclaim(target, { volumeId: id, generation: copy.generation, source: node });
}

/**
 * The pool that is lost, as an operator says.
 * @throws FailedPrecondition, Unavailable if its disk may be in another node, which has the volume
 */
function poolLost({ state }: ChangedFleet, { lostPool }: ChangeWishes, { id, node }: Found): string | undefined {
  if (lostPool === undefined) return undefined;
  requireOnlyAt(state, id, [node]);
  requireAllTold(state, id);
  return lostPool;
}

/** A copy that is refused has not become the volume, and nothing says so later: there is no copy then. */
function isRefusal(error: unknown): boolean {
  return error instanceof HoldfastError && ['ALREADY_EXISTS', 'FAILED_PRECONDITION', 'NOT_FOUND'].includes(error.code);
}

function forgetNode({ api, driverName, place, state }: ChangedFleet, wishes: ChangeWishes, output: Output) {
  const { dryRun, evenSo, json, node = '', undo } = wishes;
  const sightOf = async (name: string) => state.node(name);
  const holdersOf = (volumeId: string) => state.owners(volumeId).map((owner) => owner.node);
  return forget({ api, driverName, place, sightOf, holdersOf }, output, { node, dryRun, evenSo, json, undo });
}

/** The node on which a volume moves, and its id. @throws NotFound, FailedPrecondition, Unavailable */
async function movingVolume(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Found> {
  const { node, volume = '' } = wishes;
  if (node !== undefined) requireNode(fleet.state, node);
  const id = parseVolumeId(volume) ?? (await volumeMeant(fleet, wishes, signal));
  if (node !== undefined) return { node, id };
  const question = { list: 'moves', volume: undefined, node, waitMs: searchMs, signal };
  const { items, missing, problems } = await askFleet(fleet, question, itemShapes.moves);
  const moves = items.filter(({ item }) => item.id === id);
  const running = moves.filter(({ item }) => item.state === 'running');
  // Both nodes of a move have one: the node that the volume goes to can end it at any time, also if it has failed there.
  const [first] = running;
  const failed = moves
    .filter(({ item }) => item.state === 'failed' && item.toNode === undefined)
    .toSorted((a, b) => (a.item.startedAt > b.item.startedAt ? -1 : 1))
    .find(
      ({ item, node: target }) => first === undefined || (item.fromNode === first.node && target === first.item.toNode),
    );
  const told = running.find(({ item }) => item.toNode === undefined) ?? failed ?? first;
  if (told !== undefined) return { node: told.node, id };
  const unsure = [...missing, ...problems].map(({ message, node: other }) => `node ${other}: ${message}`);
  if (unsure.length === 0)
    throw new NotFound(`volume ${id} does not move; kubectl holdfast move status shows the moves`);
  throw new Unavailable(
    `volume ${id} does not move on the nodes that answered; ${unsure.slice(0, 3).join('; ')}. If you know its node: --node`,
  );
}

/**
 * The id of the volume that a name or `namespace/claim` means. The node that a volume moves to has no record of it, and the one that it
 * leaves may be lost: its PersistentVolume names it then.
 */
async function volumeMeant(fleet: ChangedFleet, { node, volume = '' }: ChangeWishes, signal: AbortSignal) {
  const question = { list: 'volumes', volume, node, waitMs: searchMs, signal };
  const { items } = await askFleet(fleet, question, itemShapes.volumes);
  const known = new Map<string, Known>(
    items.filter(({ item }) => isMeant(item, volume)).map(({ item }) => [item.id, item]),
  );
  if (known.size === 0) for (const recorded of await recordedAs(fleet, volume)) known.set(recorded.id, recorded);
  return findVolume([...known.values()], volume, 'on the nodes that answered, or in a PersistentVolume').id;
}

/** The volumes whose PersistentVolumes have that name, or that claim. Several can name one volume, as while it moves. */
async function recordedAs({ api, driverName }: ChangedFleet, volume: string): Promise<Known[]> {
  const found: Known[] = [];
  for await (const { claim, handle, name, node } of persistentVolumes(api, driverName)) {
    const recorded = { id: handle, name, claim, pool: node === undefined ? 'not known' : `of node ${node}` };
    if (parseVolumeId(handle) !== undefined && isMeant(recorded, volume)) found.push(recorded);
  }
  return found;
}

interface Found {
  readonly id: string;
  readonly node: string;
}

/** The one volume in the trash of a node that is meant. @throws NotFound, FailedPrecondition, Unavailable */
async function trashedVolume(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Found> {
  const { node, volume = '' } = wishes;
  if (node !== undefined) requireNode(fleet.state, node);
  if (node !== undefined && parseVolumeId(volume) !== undefined) return { node, id: volume };
  const question = { list: 'trash', volume, node, waitMs: searchMs, signal };
  const { items, missing, problems } = await askFleet(fleet, question, itemShapes.trash);
  const meant = items.filter(({ item }) => isMeant(item, volume));
  // One id can have been deleted several times: all of them are meant.
  const each = new Map(meant.map((told) => [`${told.node} ${told.item.id}`, told]));
  const known = [...each.values()].map(({ item: { claim, id, name, pool }, node: itsNode }) => ({
    ...{ id, name, claim, node: itsNode },
    pool: `${pool} of node ${itsNode}`,
  }));
  const unsure = [...missing, ...problems].map(({ message, node: other }) => `node ${other}: ${message}`);
  if (known.length === 0 && unsure.length > 0) {
    throw new Unavailable(
      `there is no volume '${volume}' in the trash of the nodes that answered; ${unsure.slice(0, 3).join('; ')}`,
    );
  }
  if (unsure.length > 0 && parseVolumeId(volume) === undefined) {
    throw new Unavailable(
      `not all nodes have answered, and one of them may have another '${volume}' in its trash: give the id, or --node. ${unsure.slice(0, 3).join('; ')}`,
    );
  }
  return findVolume(known, volume, 'in the trash of any node');
}

interface Sent {
  readonly node: string;
  readonly id: string;
  readonly lost?: LostNode | undefined;
  readonly lostPool?: string | undefined;
  readonly disclaimed?: number | undefined;
  readonly evenSo?: boolean;
  readonly rpc: 'RestoreTrashed' | 'PurgeTrashed' | 'CancelMove' | 'FinishMove';
}

/** @throws the node's error, Unavailable, TooLate */
async function send<T>(
  { sessions, state }: ChangedFleet,
  { disclaimed = 0, evenSo = false, id, lost, lostPool = '', node, rpc }: Sent,
  schema: z.ZodType<T>,
): Promise<T> {
  if (state.node(node)?.isLinked !== true) {
    throw new Unavailable(`Node ${node} is away: nothing changes there until it is back.`);
  }
  const request = encode(requestType, {
    ...{ volume_id: id, lost_node: lost?.lostNode ?? '', lost_pool: lostPool },
    ...{ later_than: BigInt(lost?.laterThan ?? 0), words: lost?.words ?? 0, disclaimed: BigInt(disclaimed) },
    even_so: evenSo,
  });
  const deadline = new Date(Date.now() + changeMs);
  try {
    const bytes = await sessions
      .get(node)
      .calls.call({ method: `/holdfast.fleet.v1.Change/${rpc}`, request, deadline });
    const parsed = parseJsonInput(schema, decode<wire.ChangeAnswer>(answerType, bytes).result);
    if ('data' in parsed) return parsed.data;
    throw new InvalidArgument(`Node ${node} has answered in words that this controller does not know: look there.`);
  } catch (error) {
    if (!(error instanceof PassedOn) || error.code !== 'UNIMPLEMENTED') throw error;
    throw new FailedPrecondition(
      `The driver of node ${node} is older and does not take this from the controller: type the command on the node.`,
    );
  }
}
