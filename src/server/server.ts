import type { Logger } from 'pino';
import { checkedByController } from '../admin/lost-node.ts';
import { adminService } from '../admin/service.ts';
import { CommandError } from '../command/run.ts';
import type { ServeConfig } from '../config/config.ts';
import { hasNode } from '../config/side.ts';
import { controllerService } from '../controller/service.ts';
import { groupControllerService } from '../controller/snapshots/group-service.ts';
import { addServices, type CallOptions, callsOf, type ServiceHandlers } from '../csi/call.ts';
import { type Listener, listen, newServer } from '../csi/listener.ts';
import { serveRegistration } from '../csi/registration.ts';
import type { Changes } from '../fleet/node/change.ts';
import type { Look } from '../fleet/node/look.ts';
import type { NodeMoves } from '../fleet/node/moves.ts';
import type { Links } from '../fleet/node/start.ts';
import { clusterPluginCapabilities, identityService, zonedPluginCapabilities } from '../identity/service.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { explain } from '../kernel/call/explain.ts';
import { workerThreads } from '../kernel/call/workers.ts';
import type { Monitoring, MonitoringOptions } from '../metrics/serve.ts';
import { Mover } from '../move/mover.ts';
import { isStagedByNote } from '../node/notes.ts';
import { type CloudInstance, nodeService } from '../node/service.ts';
import type { Unasked } from '../node/stage/silent-stages.ts';
import { TrimTimer } from '../node/trim/trim-timer.ts';
import { isAttachedByHome, nodeKindsWith, ownParametersOf, readInstance } from '../pool/kinds.ts';
import { PoolHeld } from '../pool/location/lock.ts';
import type { Pools } from '../pool/pools.ts';
import { snapshotMetadataService } from '../snapshot-metadata/service.ts';
import { version } from '../version.ts';
import { HoldfastError, Unavailable } from '../volume/errors.ts';
import { ObjectQueue } from '../volume/flow/object-queue.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { inZone, topologyKey } from '../volume/topology.ts';
import { busyServersOf, type OpenContextVolumes, openContextVolumes } from './context-volumes.ts';
import { InFlightCalls } from './in-flight-calls.ts';
import { makePools, maxPools } from './node-pools.ts';
import { peersOf } from './peers.ts';
import { StartupGate } from './startup-gate.ts';
import { queueSizes } from './threads.ts';

/**
 * Calls wait for the pools to open for this long after the start; a pool on a disk that hangs would block them for
 * ever.
 */
const openingTimeoutMs = 5_000;
/** Time that running calls get when the driver is asked to stop; Kubernetes kills it 30 s after the signal. */
const callGraceMs = 20_000;
/** Time that clients get to read their answers. */
const readingGraceMs = 2_000;
/** Time that the pools get after that to release their disks. */
const poolGraceMs = 5_000;
/** The kubelet's connection is short-lived; nothing is lost if it is cut. */
const registrationGraceMs = 1_000;
/** A pool that takes longer to open, e.g. on a disk that hangs, does not delay the driver's registration. */
const registrationTimeoutMs = 10_000;

/** A running driver. */
export interface Driver {
  /** Resolves once every pool is open or has failed. Rejects if another driver has one of the pools. */
  readonly opened: Promise<void>;
  /** The number of calls so far, without Probe and the like. */
  readonly calls: () => number;
  /** Stops accepting calls, lets running ones finish for a while, closes the pools and removes the sockets. */
  stop(): Promise<void>;
}

/**
 * Starts the driver. It answers Probe as soon as this resolves; the pools open after that.
 * @param look answers the controller's queries about this node
 */
export async function startDriver(config: ServeConfig, log: Logger, look: Look): Promise<Driver> {
  const sizes = queueSizes(workerThreads, maxPools(config.pools), busyServersOf(config));
  const nodePools = await makePools(config, log, sizes.pool);
  const { pools } = nodePools;
  const inFlight = new InFlightCalls();
  const stopping = new AbortController();
  const isStopping = () => stopping.signal.aborted;

  const server = newServer();
  const objects = new ObjectQueue();
  const kubeletQueue = new DiskQueue('kubelet', sizes.kubelet);
  const gate = new StartupGate();
  const { dataDirectory } = config;
  const shared = { pools, objects, dataDirectory, queue: kubeletQueue, log };
  const peers = await peersOf(config, shared, {
    isMovingHere: (id) => mover?.isMoving(id) === true,
    areComing: (id) => mover?.areSnapshotsComing(id) === true,
  });
  const mover =
    config.side === undefined
      ? new Mover({
          ...{ ...shared, movesSnapshots: config.movesSnapshots, peers: peers?.nodes },
          isStaged: (id) => isStagedByNote(config.notes, kubeletQueue, id),
        })
      : undefined;
  const remote = hasNode(config.side)
    ? await openContextVolumes(config, { log, queue: kubeletQueue, threadsEach: sizes.server })
    : undefined;
  const unasked = { log, stopping: stopping.signal, during: inFlight.during.bind(inFlight) };
  const {
    admin: adminHandlers,
    linked,
    ...handlers
  } = services(config, { pools, objects, kubeletQueue, inFlight, gate, mover, remote, unasked });
  const callOptions = { log, ready: () => !isStopping(), stopping: stopping.signal };
  addServices(server, handlers, callOptions);
  const listener = await listen(server, config.socketPath);
  const { driverName: driver, nodeId: node, side, socketPath: socket } = config;
  log.info({ driver, version, node, socket, side }, 'listening');

  // Starts before the pools open, to count the work that they find half done, too.
  const monitoring = await monitor(config, { pools, kubeletQueue, remote, isStopping, log });
  const opened = Promise.all([openPools(pools, isStopping, log), nodePools.find()]).then(() => undefined);
  const links = startLinks(config, {
    linked,
    look,
    changes: adminHandlers,
    mover,
    moves: mover && peers?.address !== undefined ? { ...peers, address: peers.address, mover } : undefined,
    pools,
    opened,
    callOptions,
    isStopping,
  });
  const trimTimer = new TrimTimer({ pools, objects, log });
  const registered = register(config, { opened, stopping: stopping.signal, log });
  const administered = import('../admin/administer.ts').then(({ administer }) => {
    const { adminSocketPath: socketPath } = config;
    const handlers = checkedByController(adminHandlers, async () => (await links)?.isLinked() === true);
    return administer({ socketPath, handlers, opened, isStopping, log });
  });
  // Callers that await these get the failure; no one must.
  opened.catch(() => undefined);
  // All moves are known before the pools open. A pool that never opens keeps no move of others back.
  void Promise.all([mover?.learn(), peers?.leavings.resume(), peers?.snapshotLeavings.resume()])
    .then(() => Promise.race([opened, pools.whenReady(stopping.signal)]))
    .then(() => mover?.resume())
    .catch((error: unknown) => log.error({ err: error }, 'cannot resume the moves of volumes'));
  void withTimeout(openingTimeoutMs, Promise.allSettled([opened])).then(() => gate.open());

  return {
    opened,
    calls: () => inFlight.begun,
    async stop() {
      stopping.abort();
      nodePools.stopFinding();
      pools.stopOpening();
      // Lets waiting calls fail: their pool will not be opened any more.
      gate.open();
      const registration = await registered;
      await registration?.close(registrationGraceMs);
      await listener.hide();
      // A socket that still waits for another driver to end takes no calls, and closes on its own.
      const adminClosed = Promise.race([administered, undefined]).then((admin) => admin?.close(callGraceMs));
      (await links)?.leave();
      const isIdle = await inFlight.idle(callGraceMs);
      if (!isIdle) log.warn('stopping although calls still run; they are safe to repeat');
      // A finished call waits only for its client, which may have stopped reading.
      await Promise.all([listener.close(isIdle ? readingGraceMs : 0), withTimeout(readingGraceMs, adminClosed)]);
      await (await links)?.stop();
      await monitoring?.close();
      remote?.servers.stop();
      const closed = Promise.allSettled([
        opened,
        trimTimer.stop(),
        mover?.stop(),
        peers?.leavings.stop(),
        peers?.nodes.close(),
      ]).then(() => pools.close());
      if ((await withTimeout(poolGraceMs, closed)) === 'late') {
        log.warn('a pool takes too long to close; stopping without it');
      }
      log.info('stopped');
    },
  };
}

interface Parts {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly kubeletQueue: DiskQueue;
  readonly inFlight: InFlightCalls;
  readonly gate: StartupGate;
  /** undefined: every node can reach its volumes, which do not move. */
  readonly mover: Mover | undefined;
  /** undefined: this process mounts no volumes that every node can reach. */
  readonly remote: OpenContextVolumes | undefined;
  readonly unasked: Unasked;
}

/** Names the maker of snapshots and volumes in a driver whose home may be on any node: ids are made from it. */
const anyNode = 'cluster';

/** The services of one side of a driver whose volumes every node can reach. */
function clusterServices(
  config: ServeConfig,
  { pools, objects, kubeletQueue, inFlight, gate, remote, unasked }: Parts,
) {
  const { attach, driverName, maxVolumesPerNode, nodeId, notes, searchPath, side, targetRoots } = config;
  const nodeKinds = nodeKindsWith(config.programs);
  const calls = <H extends object>(handlers: H) => inFlight.count(gate.guard(handlers));
  const topology = undefined;
  const isZoned = config.cloud !== undefined || config.pools.some(({ kind }) => isAttachedByHome(kind));
  const capabilities = isZoned ? zonedPluginCapabilities : clusterPluginCapabilities;
  const identity = { name: driverName, version, pools, searchPath, capabilities };
  const home = {
    controller: calls(
      controllerService({
        ...{ nodeId: anyNode, topology, pools, objects, attach, maxVolumesPerNode, nodeKinds },
        expansion: 'controller',
        ownParameters: ownParametersOf(config.pools),
        hasNoClones: config.pools.length > 0 && config.pools.every(({ kind }) => isAttachedByHome(kind)),
      }),
    ),
    groupController: calls(groupControllerService({ nodeId: anyNode, pools, objects })),
  };
  const node = remote && {
    node: calls(
      nodeService({
        ...{ nodeId, topology, objects, targetRoots, notes, maxVolumesPerNode },
        volumes: remote.volumes,
        queue: kubeletQueue,
        unasked,
        readInstance: config.cloud === undefined ? undefined : () => instanceOf(config),
      }),
    ),
  };
  return {
    identity: identityService(identity),
    ...(side === 'node' ? {} : home),
    ...node,
    linked: () => ({}),
    admin: inFlight.count(adminService({ nodeId: anyNode, pools, objects, volumes: remote?.volumes })),
  };
}

/** Asked with each call: cards and disks that come later take places of volumes. */
async function instanceOf({ cloud, cloudEnvironment }: ServeConfig): Promise<CloudInstance> {
  if (cloud === undefined) throw new Unavailable('HOLDFAST_CLOUD is not set.');
  try {
    const { id, maxVolumes, zone, zoneKeys } = await readInstance(cloud, cloudEnvironment);
    return { id, maxVolumes, topology: inZone(zoneKeys, zone) };
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw new Unavailable(
      `the metadata service of ${cloud} does not say what this node is (${explain(error)}): in a pod it needs hostNetwork, or a hop limit of 2.`,
    );
  }
}

function services(config: ServeConfig, parts: Parts) {
  if (config.side !== undefined) return clusterServices(config, parts);
  const { pools, objects, kubeletQueue, inFlight, gate, mover } = parts;
  const { attach, driverName, expansion, maxInlineSizeBytes, maxVolumesPerNode, nodeId, searchPath, targetRoots } =
    config;
  const topology = { [topologyKey]: nodeId };
  const calls = <H extends object>(handlers: H) => inFlight.count(gate.guard(handlers));
  const controller = { nodeId, topology, pools, moves: mover, objects, expansion, attach, maxVolumesPerNode };
  const groupController = calls(groupControllerService({ nodeId, pools, objects }));
  const snapshotMetadata = inFlight.countStreams(snapshotMetadataService({ pools, objects }));
  return {
    identity: identityService({ name: driverName, version, pools, searchPath }),
    controller: calls(controllerService(controller)),
    node: calls(
      nodeService({
        nodeId,
        topology,
        pools,
        objects,
        targetRoots,
        notes: config.notes,
        queue: kubeletQueue,
        attachRequired: attach === 'required',
        maxVolumesPerNode,
        maxInlineSizeBytes,
        arrival: mover && ((id) => mover.arrival(id)),
      }),
    ),
    groupController,
    snapshotMetadata,
    // A controller reaches the disks of every node, so volumes grow there without a pod, too.
    linked: (): Omit<ServiceHandlers, 'identity' | 'node'> => ({
      controller: calls(controllerService({ ...controller, expansion: 'controller' })),
      groupController,
      snapshotMetadata,
    }),
    admin: inFlight.count(adminService({ mover, nodeId, pools, objects })),
  };
}

interface LinkParts {
  readonly look: Look;
  readonly changes: Changes;
  readonly mover: Mover | undefined;
  readonly moves: NodeMoves | undefined;
  readonly linked: () => Omit<ServiceHandlers, 'identity' | 'node'>;
  readonly pools: Pools;
  readonly opened: Promise<void>;
  readonly callOptions: CallOptions;
  readonly isStopping: () => boolean;
}

/** Links to the controller of many nodes, if there is one; otherwise their code is not loaded. */
async function startLinks(config: ServeConfig, parts: LinkParts): Promise<Links | undefined> {
  const { driverName, link, nodeId } = config;
  if (link === undefined) return undefined;
  const { callOptions, changes, isStopping, linked, look, mover, moves, opened, pools } = parts;
  const { startLinks: start } = await import('../fleet/node/start.ts');
  if (isStopping()) return undefined;
  const links = start({
    ...link,
    nodeId,
    driverName,
    calls: callsOf(linked(), callOptions),
    look,
    changes,
    mover,
    moves,
    pools,
    log: callOptions.log,
  });
  void opened.then(
    () => links.look(),
    () => undefined,
  );
  return links;
}

/** Metrics and health, if they are configured; otherwise their code is not loaded. */
async function monitor(
  config: ServeConfig,
  live: Pick<MonitoringOptions, 'isStopping' | 'kubeletQueue' | 'log' | 'pools' | 'remote'>,
): Promise<Monitoring | undefined> {
  const { driverName: driver, httpAddress: address, nodeId: node_id, socketPath } = config;
  if (address === undefined) return undefined;
  const { startMonitoring } = await import('../metrics/serve.ts');
  return startMonitoring({ ...live, address, socketPath, identity: { version, driver, node_id } });
}

/** @throws PoolHeld: two drivers on one pool are an operator's mistake, and this is the second one */
async function openPools(pools: Pools, isStopping: () => boolean, log: Logger): Promise<void> {
  const failures = await pools.open();
  // Unfinished work says nothing about the pools.
  if (isStopping()) return;
  for (const { name, error } of failures) {
    if (error instanceof PoolHeld) throw error;
    // Known errors, and errors of the kernel, need no stack trace.
    const isTold = error instanceof Error && 'syscall' in error;
    const isKnown = error instanceof HoldfastError || error instanceof CommandError || isTold;
    const cause = isKnown ? { reason: error.message } : { err: error };
    log.error({ pool: name, ...cause }, 'a pool could not be opened; the others work without it');
  }
}

interface Registration {
  readonly opened: Promise<void>;
  readonly stopping: AbortSignal;
  readonly log: Logger;
}

/**
 * Registers with the kubelet once the pools are open: the kubelet sends calls at once. A driver that is stopping does
 * not register, or the kubelet would send its calls there.
 */
async function register(config: ServeConfig, { log, opened, stopping }: Registration): Promise<Listener | undefined> {
  const { driverName, registrationSocketPath, socketPath } = config;
  if (registrationSocketPath === undefined) return undefined;
  try {
    const stopped = new Promise<'stopped'>((resolve) => {
      stopping.addEventListener('abort', () => resolve('stopped'), { once: true });
    });
    const outcome = await Promise.race([stopped, withTimeout(registrationTimeoutMs, opened)]);
    if (outcome === 'stopped' || stopping.aborted) return undefined;
    if (outcome === 'late') log.warn('registering although a pool is still being opened');
    const options = { socketPath: registrationSocketPath, driverName, endpointPath: socketPath, log };
    const listener = await serveRegistration(options);
    if (!stopping.aborted) log.info({ socket: registrationSocketPath }, 'listening for the kubelet');
    return listener;
  } catch (error) {
    if (!(error instanceof PoolHeld)) log.error({ err: error }, 'cannot serve the registration socket');
    return undefined;
  }
}
