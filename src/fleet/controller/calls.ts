import type { Logger } from 'pino';
import { type Attach, controllerCapabilities, groupControllerCapabilities } from '../../controller/capabilities.ts';
import type { Calls } from '../../csi/call.ts';
import { encode, type Method, methodsOf } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { CallContext } from '../../csi/handler.ts';
import { parseTopologyRequirement } from '../../csi/parse.ts';
import { type CallOptions, streamCall, unaryCall, type Work } from '../../csi/pipeline.ts';
import { withoutSecrets } from '../../csi/without-secrets.ts';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { parseSnapshotId, parseVolumeId } from '../../volume/id.ts';
import { type WaitingClaim, waitingClaim } from '../kubernetes/claims.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import type { RecordsOfVolumes } from '../kubernetes/volume-records.ts';
import { type Route, routeById } from '../routing/by-id.ts';
import {
  type Candidates,
  type Placement,
  routeCreation,
  SourceElsewhere,
  SourceUnknown,
} from '../routing/create-volume.ts';
import { describe, isAllTold, requireLinked } from '../routing/missing.ts';
import { routeGroup, routeGroupById, routeSnapshot } from '../routing/snapshots.ts';
import type { FleetCapacity } from './capacity.ts';
import type { EndedIds } from './ended.ts';
import type { FleetState } from './fleet-state.ts';
import { forward, forwardInTurn, forwardTwice, type RoutedCall } from './forward.ts';
import { listSnapshots, listVolumes } from './listing.ts';
import { requireOwn } from './made.ts';
import { isNotFound } from './passed-on.ts';
import { type MovesTold, routeRecorded } from './recorded-owner.ts';
import type { Sessions } from './sessions.ts';

export interface FleetParts {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly capacity: FleetCapacity;
  readonly log: Logger;
  /** Deletions that this replica has seen. */
  readonly ended: EndedIds;
  /** Returns the PersistentVolumes of a volume. */
  readonly records: RecordsOfVolumes;
  readonly attach: Attach;
  readonly moves: MovesTold;
  /** Sends the claim of a volume to a node; undefined: the scheduler alone decides where claims go. */
  readonly sendClaim: ((claim: WaitingClaim, node: string) => Promise<boolean>) | undefined;
  /** Answers if the volume's class stops waiting for its node. */
  readonly isForgottenByClass: (records: readonly RecordedVolume[]) => Promise<boolean>;
}

/** Any request message; its fields are those of its method's contract. */
type Routes = Readonly<Record<string, (state: FleetState, request: never) => Route>>;

const byVolume = (state: FleetState, { volume_id }: { readonly volume_id: string }) => routeById(state, volume_id);
const bySnapshot = (state: FleetState, { snapshot_id }: { readonly snapshot_id: string }) =>
  routeById(state, snapshot_id);

interface GroupRequest {
  readonly group_snapshot_id: string;
  readonly snapshot_ids: readonly string[];
}
const byGroup = (state: FleetState, { group_snapshot_id, snapshot_ids }: GroupRequest) =>
  routeGroupById(state, group_snapshot_id, snapshot_ids);

/** Calls that go to one node unchanged. */
const routes: Routes = {
  DeleteVolume: byVolume,
  ValidateVolumeCapabilities: byVolume,
  ControllerGetVolume: byVolume,
  ControllerModifyVolume: byVolume,
  ControllerExpandVolume: byVolume,
  DeleteSnapshot: bySnapshot,
  GetSnapshot: bySnapshot,
  CreateSnapshot: (state, { name, source_volume_id }: wire.CreateSnapshotRequest) =>
    routeSnapshot(state, name, source_volume_id),
  CreateVolumeGroupSnapshot: (state, { name, source_volume_ids }: wire.CreateVolumeGroupSnapshotRequest) =>
    routeGroup(state, name, source_volume_ids),
  DeleteVolumeGroupSnapshot: byGroup,
  GetVolumeGroupSnapshot: byGroup,
};

/** Only present if they are advertised (G02). */
const attachRoutes: Routes = { ControllerPublishVolume: byVolume, ControllerUnpublishVolume: byVolume };

/** All calls of the fleet's services, which the nodes do. */
export function fleetCalls(parts: FleetParts, options: CallOptions): Calls {
  const own = ownWork(parts);
  const unary = [...methodsOf('csi.v1.Controller'), ...methodsOf('csi.v1.GroupController')].map((method) => {
    const work = own[method.name]?.(method) ?? routed(parts, method);
    return [method.path, unaryCall(method, work, options)] as const;
  });
  const streams = methodsOf('csi.v1.SnapshotMetadata').map((method) => {
    const work = (request: MetadataRequest, context: CallContext & { readonly signal: AbortSignal }, bytes: Buffer) =>
      streamed(parts, method, request, context, bytes);
    return [method.path, streamCall(method, work, options)] as const;
  });
  return { unary: new Map(unary), streams: new Map(streams) };
}

function routed(parts: FleetParts, method: Method): Work<never> | undefined {
  const { ended, sessions, state } = parts;
  const routeOf = routes[method.name] ?? (parts.attach === 'required' ? attachRoutes[method.name] : undefined);
  if (routeOf === undefined) return undefined;
  return async (request, context, bytes) => {
    const deletedId = deletedBy(method, request);
    const endedBy = deletedId === undefined ? undefined : whoEnded(parts, deletedId);
    // Asks the node again: the object may have been restored there since.
    let route: Route =
      endedBy === undefined ? await routeRecorded(parts, () => routeOf(state, request)) : { to: 'node', node: endedBy };
    const call = { method, request: bytes, deadline: context.deadline };
    if (route.to === 'all' && method.name === 'DeleteVolume') {
      const records = await recordsOfGone(parts, volumesOf(request));
      // Nodes come and go while Kubernetes is queried: nothing else is awaited between this routing and the calls to
      // the nodes.
      route = routeOf(state, request);
      if (route.to === 'all') refuseMissing(state, records);
    }
    if (route.to === 'node' && method.name === 'DeleteVolume') route = alsoToTarget(parts, volumesOf(request), route);
    if (route.to === 'node') context.note({ node: route.node });
    const snapshotId = snapshotIn(request);
    const ask = () => (route.to === 'all' && snapshotId !== undefined ? forwardTwice : forward)(sessions, route, call);
    const response = await ask().catch(async (error) => {
      if (route.to === 'node' && isNotFound(error)) {
        refuseMoved(parts, volumesOf(request), route.node);
        await refuseGone(parts, snapshotId, route.node);
      }
      return explainNotFound(parts, volumesOf(request), error);
    });
    if (route.to === 'node') requireOwn(state, { method, node: route.node, request: bytes, response });
    if (route.to === 'node' && deletedId !== undefined) {
      const canMove = method.name === 'DeleteVolume' || method.name === 'DeleteSnapshot';
      if (canMove) await alsoWhereListed(parts, route.node, deletedId, call);
      ended.add(deletedId, canMove ? await alsoWhereItWent(parts, route.node, deletedId, call) : route.node);
    }
    return response;
  };
}

/** Routes a call for one object. @throws Unavailable, FailedPrecondition */
function routeObject(parts: FleetParts, id: string): Promise<Route> {
  return routeRecorded(parts, () => routeById(parts.state, id));
}

/** A node that the volume has just left knows nothing of it, and would say that it is deleted. */
function alsoToTarget({ moves }: FleetParts, [id = '']: readonly string[], route: RouteToNode): Route {
  const target = moves.movedTo(id, route.node);
  return target === undefined ? route : { to: 'all', nodes: [route.node, target] };
}

/**
 * A node from where the volume has just gone says that it is deleted, and the one where it is may not have reported it, or be away:
 * it is deleted there, too.
 * @returns the node that has deleted it last
 * @throws Unavailable
 */
async function alsoWhereItWent(
  { moves, sessions, state }: FleetParts,
  first: string,
  id: string,
  call: RoutedCall,
): Promise<string> {
  const asked = new Set([first]);
  for (let node = first; ; ) {
    const next = await moves.wentTo(id, node);
    const sight = next === undefined ? undefined : state.node(next);
    // An operator has said that it is gone, or Kubernetes has it no more.
    if (next === undefined || sight === undefined || state.isForgotten(next) || asked.has(next)) return node;
    requireLinked(sight, id);
    await forward(sessions, { to: 'node', node: next }, call);
    asked.add(next);
    node = next;
  }
}

/**
 * A node may have an earlier copy of the deleted object: of a snapshot that was taken back from it while it was lost, or of a volume, as
 * its disks were put back. It goes, too. No node is believed that says so falsely: it gets no secrets, and keeps nothing from its end.
 */
async function alsoWhereListed({ log, sessions, state }: FleetParts, first: string, id: string, call: RoutedCall) {
  for (const { isVolume, node } of state.owners(id)) {
    if (node === first || state.node(node)?.isLinked !== true) continue;
    await forward(sessions, { to: 'all', nodes: [node] }, call).catch((error: unknown) => {
      const facts = { ...(isVolume ? { volume_id: id } : { snapshot_id: id }), node, err: error };
      log.warn(facts, 'an object was deleted on another node, and the copy here is left');
    });
  }
}

/** The same of a snapshot that has followed its volume to another node. @throws Unavailable */
async function refuseGone({ moves }: FleetParts, id: string | undefined, node: string): Promise<void> {
  const target = id === undefined ? undefined : await moves.wentTo(id, node);
  if (target !== undefined) throw new Unavailable(`${id} has just moved from ${node} to ${target}; try again.`);
}

/** The snapshot that a call is for; undefined: none that can be there. */
function snapshotIn(request: { readonly snapshot_id?: string }): string | undefined {
  return request.snapshot_id && parseSnapshotId(request.snapshot_id);
}

/** "Not found" is final for Kubernetes. @throws Unavailable if a volume has just moved away from the node that was asked */
function refuseMoved({ moves }: FleetParts, ids: readonly string[], node: string): void {
  for (const id of ids) {
    const target = moves.movedTo(id, node);
    if (target !== undefined) throw new Unavailable(`${id} has just moved from ${node} to ${target}; try again.`);
  }
}

type RouteToNode = Extract<Route, { readonly to: 'node' }>;

/** The id that a call deletes; undefined: it deletes nothing. */
function deletedBy(
  { name }: Method,
  request: { readonly volume_id?: string; readonly snapshot_id?: string; readonly group_snapshot_id?: string },
): string | undefined {
  if (name === 'DeleteVolume') return request.volume_id;
  if (name === 'DeleteSnapshot') return request.snapshot_id;
  return name === 'DeleteVolumeGroupSnapshot' ? request.group_snapshot_id : undefined;
}

/**
 * The node that deleted the object earlier, if no node has it now. An object that was restored or made again has a
 * node. A node that has left the cluster since is not awaited.
 */
function whoEnded({ ended, state }: FleetParts, id: string): string | undefined {
  if (state.owners(id).length > 0) return undefined;
  const node = ended.by(id);
  return node === undefined || state.node(node) === undefined || state.isForgotten(node) ? undefined : node;
}

/** The volumes that a request names. */
function volumesOf(request: {
  readonly volume_id?: string;
  readonly source_volume_id?: string;
  readonly source_volume_ids?: readonly string[];
}): readonly string[] {
  const { source_volume_id, source_volume_ids = [], volume_id } = request;
  return [volume_id ?? '', source_volume_id ?? '', ...source_volume_ids].filter((id) => id !== '');
}

/** The PersistentVolumes for which the driver must still wait for their node. */
async function recordsOfGone(parts: FleetParts, volumeIds: readonly string[]): Promise<readonly RecordedVolume[]> {
  const { isForgottenByClass, records: kept, state } = parts;
  const records = (await Promise.all(volumeIds.map((id) => kept.of(id)))).flat();
  const isAnyMissing = records.some((record) => isMissing(state, record));
  return isAnyMissing && (await isForgottenByClass(records)) ? [] : records;
}

function isMissing(state: FleetState, { node }: RecordedVolume): boolean {
  const sight = node === undefined ? undefined : state.node(node);
  return !(node === undefined || state.isForgotten(node) || (sight !== undefined && isAllTold(sight)));
}

/**
 * Refuses an early answer: after a false success the volume would stay for ever, and "not found" is final for
 * Kubernetes, which may have recorded a node for the volume that the controller does not know.
 * @throws Unavailable
 */
function refuseMissing(state: FleetState, records: readonly RecordedVolume[]): void {
  const missing = records.find((record) => isMissing(state, record));
  if (missing === undefined) return;
  const { handle, node = '' } = missing;
  const sight = state.node(node);
  const why = sight === undefined ? `${node} has no link` : describe([sight]);
  throw new Unavailable(
    `${handle} is on ${node} by its PersistentVolume, and ${why}. If the node will not come back: holdfast forget-node.`,
  );
}

/** @throws Unavailable instead, if the volume's node is away and was not asked */
async function explainNotFound(parts: FleetParts, volumeIds: readonly string[], error: unknown): Promise<never> {
  if (isNotFound(error)) {
    refuseMissing(parts.state, await recordsOfGone(parts, volumeIds));
  }
  throw error;
}

type OwnWork = Readonly<Record<string, (method: Method) => Work<never>>>;

/** Calls that involve several nodes, or none. */
function ownWork(parts: FleetParts): OwnWork {
  const { attach, capacity, sessions, state } = parts;
  const work = <Q>(make: (method: Method) => Work<Q>) => make as (method: Method) => Work<never>;
  return {
    CreateVolume: work<wire.CreateVolumeRequest>((method) => (request, context, bytes) => {
      return createVolume(parts, method, request, context, bytes);
    }),
    ListVolumes: work<wire.ListVolumesRequest>((method) => (request, { deadline }) => {
      return listVolumes({ state, sessions, method, deadline }, request);
    }),
    ListSnapshots: work<wire.ListSnapshotsRequest>((method) => (request, { deadline }, bytes) => {
      const refuse = (node: string) => refuseGone(parts, snapshotIn(request), node);
      const routeOf = (id: string) => routeObject(parts, id);
      return listSnapshots({ state, sessions, method, deadline }, request, bytes, { refuseGone: refuse, routeOf });
    }),
    GetCapacity: work<wire.GetCapacityRequest>((method) => async (request) => {
      return encode(method.responseType, await capacity.answer(request));
    }),
    ControllerGetCapabilities: work((method) => async () => {
      const capabilities = controllerCapabilities({ expansion: 'controller', attach });
      return encode(method.responseType, { capabilities });
    }),
    GroupControllerGetCapabilities: work((method) => async () => {
      return encode(method.responseType, { capabilities: groupControllerCapabilities });
    }),
  };
}

async function createVolume(
  parts: FleetParts,
  method: Method,
  request: wire.CreateVolumeRequest,
  { deadline, note }: CallContext,
  bytes: Buffer,
): Promise<Buffer> {
  const { log, sessions } = parts;
  const { name, volume_content_source: source } = request;
  const sourceId = source?.snapshot?.snapshot_id ?? source?.volume?.volume_id;
  const topology = parseTopologyRequirement(request.accessibility_requirements);
  const placement = { name, sourceId, topology };
  const { nodes, strays } = await place(parts, placement, request.parameters).catch(async (error) => {
    if (!(error instanceof SourceUnknown) || sourceId === undefined) throw error;
    await seek(parts, sourceId, deadline);
    // A node with the source has reported it before it answered.
    return place(parts, placement, request.parameters).catch((again) => explainNotFound(parts, [sourceId], again));
  });
  const call = { method: method.path, name, request: bytes, deadline };
  const { node, response } = await forwardInTurn(sessions, nodes, call).catch(async (error) => {
    if (isNotFound(error)) for (const each of nodes) await refuseGone(parts, source?.snapshot?.snapshot_id, each);
    throw error;
  });
  note({ node });
  requireOwn(parts.state, { method, node, request: bytes, response });
  for (const stray of strays) {
    log.warn(
      { volume_id: stray.id, node: stray.node },
      'an earlier attempt created this volume on a node that its claim has left',
    );
  }
  return response;
}

/** Asks all nodes for an object without a known owner: another replica may have had it made just now. */
async function seek(parts: FleetParts, id: string, deadline: Date | undefined): Promise<void> {
  const isVolume = parseVolumeId(id) !== undefined;
  const method = controllerMethod(isVolume ? 'ControllerGetVolume' : 'GetSnapshot');
  const request = encode(method.requestType, isVolume ? { volume_id: id } : { snapshot_id: id });
  const route = await routeObject(parts, id);
  const ask = isVolume || route.to !== 'all' ? forward : forwardTwice;
  await ask(parts.sessions, route, { method, request, deadline }).catch((error) => {
    if (!isNotFound(error)) throw error;
  });
}

function controllerMethod(name: string): Method {
  const method = methodsOf('csi.v1.Controller').find((each) => each.name === name);
  if (method === undefined) throw new Error(`the contract has no ${name}`);
  return method;
}

/**
 * Places a volume. The scheduler knows nothing about sources, and picks the same wrong nodes again and again: a claim
 * that waits for its pod is sent to the node of its source, before the answer makes the provisioner ask for another
 * one.
 */
async function place(
  parts: FleetParts,
  placement: Placement,
  parameters: Readonly<Record<string, string>>,
): Promise<Candidates> {
  const { log, sendClaim, state } = parts;
  try {
    return await routeRecorded(parts, () => routeCreation(state, placement));
  } catch (error) {
    const claim = waitingClaim(placement.name, parameters);
    if (!(error instanceof SourceElsewhere) || sendClaim === undefined || claim === undefined) throw error;
    const { node } = error;
    // A claim that was sent to a node that is permanently gone would wait there for ever.
    if (state.node(node)?.isLinked !== true) throw error;
    const facts = { claim: `${claim.namespace}/${claim.name}`, node };
    try {
      if (await sendClaim(claim, node)) log.info(facts, 'sent a claim to the node of its source');
    } catch (failure) {
      const reason = failure instanceof Error ? failure.message : 'unknown';
      log.warn({ ...facts, reason }, 'cannot send a claim to the node of its source');
    }
    throw error;
  }
}

/** The field that both requests share. */
interface MetadataRequest {
  readonly snapshot_id?: string;
  readonly target_snapshot_id?: string;
}

async function* streamed(
  parts: FleetParts,
  method: Method,
  { snapshot_id, target_snapshot_id }: MetadataRequest,
  { deadline, note, signal }: CallContext & { readonly signal: AbortSignal },
  bytes: Buffer,
): AsyncGenerator<Buffer, void, void> {
  const { sessions } = parts;
  const id = snapshot_id ?? target_snapshot_id ?? '';
  const route = await routeObject(parts, id);
  if (route.to === 'node') {
    note({ node: route.node });
    try {
      yield* sessions.get(route.node).calls.stream({ method: method.path, request: bytes, deadline }, signal);
    } catch (error) {
      if (isNotFound(error)) await refuseGone(parts, id, route.node);
      throw error;
    }
    return;
  }
  const request = withoutSecrets(method.requestType, bytes);
  let notFound: unknown = new Unavailable('No node has a link to the controller; try again.');
  // Asks each node until one has the snapshot, if none is known to have it. For an id that no snapshot can have, any
  // node's answer will do.
  // Twice: it may have moved meanwhile, to a node that had been asked already.
  for (const node of route.to === 'all' ? [...route.nodes, ...route.nodes] : route.nodes.slice(0, 1)) {
    try {
      yield* sessions.get(node).calls.stream({ method: method.path, request, deadline }, signal);
      return note({ node });
    } catch (error) {
      if (!(error instanceof HoldfastError && error.code === 'NOT_FOUND')) throw error;
      notFound = error;
    }
  }
  throw notFound;
}
