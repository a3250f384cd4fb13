import type { Logger } from 'pino';
import { type Attach, controllerCapabilities, groupControllerCapabilities } from '../../controller/capabilities.ts';
import type { Calls } from '../../csi/call.ts';
import { encode, type Method, methodsOf } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { CallContext } from '../../csi/handler.ts';
import { parseTopologyRequirement } from '../../csi/parse.ts';
import { type CallOptions, streamCall, unaryCall, type Work } from '../../csi/pipeline.ts';
import { Unavailable } from '../../volume/errors.ts';
import { claimOf, type WaitingClaim } from '../kubernetes/claims.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { type Route, routeById } from '../routing/by-id.ts';
import { type Candidates, type Placement, routeCreation, SourceElsewhere } from '../routing/create-volume.ts';
import { routeGroup, routeGroupById, routeSnapshot } from '../routing/snapshots.ts';
import type { FleetCapacity } from './capacity.ts';
import type { FleetState } from './fleet-state.ts';
import { forward, forwardInTurn } from './forward.ts';
import { listSnapshots, listVolumes } from './listing.ts';
import type { Sessions } from './sessions.ts';

export interface FleetParts {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly capacity: FleetCapacity;
  readonly log: Logger;
  /** The PersistentVolumes of a volume. */
  readonly records: (volumeId: string) => Promise<readonly RecordedVolume[]>;
  readonly attach: Attach;
  /** Has the claim that a volume is made for made on that node; undefined: the scheduler alone says where claims go. */
  readonly sendClaim: ((claim: WaitingClaim, node: string) => Promise<boolean>) | undefined;
  /** Whether the volume's class does not wait for its node any longer. */
  readonly isForgottenByClass: (records: readonly RecordedVolume[]) => Promise<boolean>;
}

/** A message of any request: its fields are those that its method's contract says. */
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

/** Calls that go to one node as they came. */
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

/** They are there only if they are told of (G02). */
const attachRoutes: Routes = { ControllerPublishVolume: byVolume, ControllerUnpublishVolume: byVolume };

/** Every call of the services that are the fleet's, done by the nodes. */
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
  const { sessions, state } = parts;
  const routeOf = routes[method.name] ?? (parts.attach === 'required' ? attachRoutes[method.name] : undefined);
  if (routeOf === undefined) return undefined;
  return async (request, context, bytes) => {
    const route = routeOf(state, request);
    if (route.to === 'node') context.note({ node: route.node });
    if (route.to === 'all' && method.name === 'DeleteVolume') await requireNowhere(parts, request);
    return forward(sessions, route, { method: method.path, request: bytes, deadline: context.deadline });
  };
}

/**
 * A deletion that was answered too soon leaves a volume for ever: Kubernetes may have recorded a node for it that the
 * controller does not know of.
 * @throws Unavailable
 */
async function requireNowhere(
  { isForgottenByClass, records: recordsOf, state }: FleetParts,
  request: { volume_id: string },
): Promise<void> {
  const records = await recordsOf(request.volume_id);
  const isMissing = ({ node }: RecordedVolume) => {
    const sight = node === undefined ? undefined : state.node(node);
    return !(node === undefined || state.isForgotten(node) || (sight?.isLinked === true && sight.hasTold));
  };
  const missing = records.find(isMissing);
  if (missing === undefined || (await isForgottenByClass(records))) return;
  const { node } = missing;
  throw new Unavailable(`${request.volume_id} is on ${node} by its PersistentVolume, and ${node} has no link.`);
}

type OwnWork = Readonly<Record<string, (method: Method) => Work<never>>>;

/** Calls that more than one node has to do with, or none. */
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
      return listSnapshots({ state, sessions, method, deadline }, request, bytes);
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
  const { nodes, strays } = await place(parts, { name, sourceId, topology }, request.parameters);
  const { node, response } = await forwardInTurn(sessions, nodes, { method: method.path, request: bytes, deadline });
  note({ node });
  for (const stray of strays) {
    log.warn({ volume_id: stray.id, node: stray.node }, 'a first try made this volume where its claim is no more');
  }
  return response;
}

/**
 * The scheduler knows nothing of sources, and likes the same wrong nodes again and again: a claim that waits for its pod
 * is sent to the node of its source, before the answer makes the provisioner ask for another one.
 */
async function place(
  { log, sendClaim, state }: FleetParts,
  placement: Placement,
  parameters: Readonly<Record<string, string>>,
): Promise<Candidates> {
  try {
    return routeCreation(state, placement);
  } catch (error) {
    const claim = claimOf(placement.name, parameters);
    if (!(error instanceof SourceElsewhere) || sendClaim === undefined || claim === undefined) throw error;
    const { node } = error;
    // A claim that was sent to a node that is gone for good would wait there for ever.
    if (state.node(node)?.isLinked !== true) throw error;
    const facts = { claim: `${claim.namespace}/${claim.name}`, node };
    try {
      if (await sendClaim(claim, node)) log.info(facts, 'a claim is sent to the node of its source');
    } catch (failure) {
      const reason = failure instanceof Error ? failure.message : 'unknown';
      log.warn({ ...facts, reason }, 'a claim cannot be sent to the node of its source');
    }
    throw error;
  }
}

/** Of both requests: which snapshot it is about, at the least. */
interface MetadataRequest {
  readonly snapshot_id?: string;
  readonly target_snapshot_id?: string;
}

async function* streamed(
  { sessions, state }: FleetParts,
  method: Method,
  { snapshot_id, target_snapshot_id }: MetadataRequest,
  { deadline, note, signal }: CallContext & { readonly signal: AbortSignal },
  bytes: Buffer,
): AsyncGenerator<Buffer, void, void> {
  const route = routeById(state, snapshot_id ?? target_snapshot_id ?? '');
  // Where no node is known to have it, any of them says so in the right words.
  const node = route.to === 'node' ? route.node : route.nodes[0];
  if (node === undefined) throw new Unavailable('No node has a link to the controller; try again.');
  note({ node });
  yield* sessions.get(node).calls.stream({ method: method.path, request: bytes, deadline }, signal);
}
