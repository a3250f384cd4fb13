import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import type { ControllerConfig } from '../config/controller-config.ts';
import { addCalls, addService } from '../csi/call.ts';
import type { IdentityHandlers } from '../csi/generated/types.ts';
import { listen, newServer } from '../csi/listener.ts';
import { pluginCapabilities } from '../identity/service.ts';
import type { Monitoring } from '../metrics/serving.ts';
import { version } from '../version.ts';
import { pause } from '../volume/flow/pause.ts';
import { fleetCalls } from './controller/calls.ts';
import { FleetCapacity } from './controller/capacity.ts';
import { EndedIds } from './controller/ended.ts';
import { FleetMoves } from './controller/fleet-moves.ts';
import { FleetServer } from './controller/fleet-server.ts';
import { FleetState } from './controller/fleet-state.ts';
import { ForgottenKeeper } from './controller/keepers/forgotten-keeper.ts';
import { GoneNodes } from './controller/keepers/gone-nodes.ts';
import { LeftCopiesKeeper } from './controller/keepers/left-copies-keeper.ts';
import { StrayKeeper } from './controller/keepers/stray-keeper.ts';
import { TakenBackKeeper } from './controller/keepers/taken-back-keeper.ts';
import { Sessions } from './controller/sessions.ts';
import { KubernetesApi } from './kubernetes/api.ts';
import { keepCertificates } from './kubernetes/certificates.ts';
import { sendClaim } from './kubernetes/claims.ts';
import { watchNodes } from './kubernetes/nodes.ts';
import { persistentVolumes, recordedVolumes } from './kubernetes/persistent-volumes.ts';
import type { ObjectPlace } from './kubernetes/stored-object.ts';
import type { Comer } from './kubernetes/token-review.ts';
import { Tokens } from './kubernetes/tokens.ts';
import { VolumeRecords } from './kubernetes/volume-records.ts';
import { isSame, type Material } from './tls/material.ts';
import type { Show } from './view/start.ts';
import type { ViewServer } from './view/view-server.ts';

/** Interval of the checks if a certificate is due. */
const lookMs = 60 * 60_000;
/** Interval of the searches for volumes that earlier tries left on the wrong node. */
const strayLookMs = 5 * 60_000;
/** Pause after a failed request to Kubernetes. */
const pauseMs = 2_000;
/** Time that running calls get when the controller is asked to stop. */
const callGraceMs = 20_000;

export interface Controller {
  /** The port where nodes link; resolves when they can. */
  readonly port: Promise<number>;
  stop(): Promise<void>;
}

/** Starts a replica: CSI's socket for the sidecars beside it, the port for nodes, and the port for viewers. */
export async function startController(config: ControllerConfig, log: Logger, show?: Show): Promise<Controller> {
  const { driverName, name } = config;
  const place = { namespace: config.namespace, name: config.secretName };
  const stopping = new AbortController();
  const { signal } = stopping;
  const api = new KubernetesApi(config.api);
  const tokens = new Tokens(api, { audience: audienceOf(driverName), user: config.nodeUser });
  const state = new FleetState();
  const sessions = new Sessions(state);
  const capacity = new FleetCapacity(sessions, state);
  let known: Material | undefined;
  const records = new VolumeRecords(() => persistentVolumes(api, driverName));
  const moves = new FleetMoves({ state, sessions, log, records, material: () => known });
  const gone = new GoneNodes({ api, place, state, log, driverName });
  const calls = fleetCalls(
    {
      state,
      sessions,
      capacity,
      ended: new EndedIds(),
      attach: config.attach,
      moves,
      log,
      records,
      sendClaim: config.sendsCopies ? (claim, node) => sendClaim(api, claim, node) : undefined,
      isForgottenByClass: (records) => gone.mayForget(records),
    },
    { log, ready: () => !signal.aborted, stopping: signal },
  );
  const monitoring = await monitor(config, { state, log, isStopping: () => signal.aborted });
  const server = newServer();
  addService(server, 'csi.v1.Identity', { ...identity(driverName, state) }, { log });
  addService(server, 'csi.v1.Node', {}, { log });
  addCalls(server, calls, ['csi.v1.Controller', 'csi.v1.GroupController', 'csi.v1.SnapshotMetadata']);
  await mkdir(dirname(config.socketPath), { recursive: true, mode: 0o700 });
  const listener = await listen(server, config.socketPath);
  log.info({ driver: driverName, version, controller: name, socket: config.socketPath }, 'listening');

  const watched = watchNodes({ api, driverName, log, signal, expect: (names) => state.expect(names) });
  const strays = new StrayKeeper({ view: state, sessions, log, recorded: () => recordedVolumes(api, driverName) });
  void lookingForStrays();
  void gone.run(signal);
  void new LeftCopiesKeeper({ state, moves, log }).run(signal);
  void new TakenBackKeeper({ api, place, state, moves, log }).run(signal);
  void startOptions(config, { api, place, state, log, signal });
  let links: FleetServer | undefined;
  let view: ViewServer | undefined;
  const port = openLinks();
  port.catch(() => undefined);

  return {
    port,
    async stop() {
      stopping.abort();
      await listener.hide();
      await listener.close(callGraceMs);
      await port.catch(() => undefined);
      await view?.close();
      await links?.close();
      await watched;
      api.close();
      await monitoring?.close();
      log.info('stopped');
    },
  };

  async function openLinks(): Promise<number> {
    const material = await currentMaterial();
    known = material;
    // Forgotten nodes must be known before any node can link.
    await new ForgottenKeeper({ api, place, state, log }).start(signal);
    const { host, port: wanted } = config.linkAddress;
    const review = (token: string, comer: Comer) => tokens.review(token, comer);
    links = new FleetServer({
      host,
      port: wanted,
      material,
      driverName,
      controller: name,
      state,
      sessions,
      log,
      review,
      moves,
    });
    await links.listen();
    log.info({ port: links.port }, 'nodes can link');
    view = await openView(material);
    void renewing([links, ...(view === undefined ? [] : [view])], material);
    return links.port;
  }

  /** Loads none of its code without an address. */
  async function openView(material: Material): Promise<ViewServer | undefined> {
    const { viewAddress: address } = config;
    if (address === undefined || show === undefined) return undefined;
    const { startView } = await import('./view/start.ts');
    return startView({ address, material, api, place, state, sessions, moves, driverName, log, show });
  }

  async function currentMaterial(): Promise<Material> {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await keepCertificates(api, place);
      } catch (error) {
        log.warn({ reason: error instanceof Error ? error.message : 'unknown' }, 'cannot renew the certificates');
        await pause(pauseMs, signal);
      }
    }
  }

  async function lookingForStrays(): Promise<void> {
    for (;;) {
      // Random, so that the replicas do not search at the same time.
      await pause(strayLookMs * (0.5 + Math.random()), signal);
      if (signal.aborted) return;
      await strays.look().catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : 'unknown';
        log.warn({ reason }, 'cannot search for volumes left by earlier attempts');
      });
    }
  }

  /** Renews certificates that are due, and uses those that another replica has renewed; existing links stay. */
  async function renewing(servers: readonly Pick<FleetServer, 'renew'>[], first: Material): Promise<void> {
    let material = first;
    for (;;) {
      await pause(lookMs * (0.5 + Math.random()), signal);
      if (signal.aborted) return;
      const next = await currentMaterial().catch(() => material);
      if (isSame(material, next)) continue;
      for (const server of servers) server.renew(next);
      material = next;
      known = next;
      log.info('a new certificate is in use');
    }
  }
}

interface Monitored {
  readonly state: FleetState;
  readonly log: Logger;
  readonly isStopping: () => boolean;
}

interface OptionParts {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Starts the options that need more rights. Each is off by default, and then none of its code is loaded. */
async function startOptions(config: ControllerConfig, parts: OptionParts): Promise<void> {
  const { driverName, eventsAfterMs: afterMs, name: controller, taintQuarantine: effect } = config;
  if (afterMs !== undefined) {
    const { startTelling } = await import('./controller/telling.ts');
    startTelling({ ...parts, driverName, controller, afterMs });
  }
  if (effect !== undefined) {
    const { QuarantineKeeper } = await import('./controller/keepers/quarantine-keeper.ts');
    void new QuarantineKeeper({ ...parts, driverName, effect }).run(parts.signal);
  }
}

/** Loads none of its code without an address. */
async function monitor(
  { driverName: driver, httpAddress: address, name: controller, socketPath }: ControllerConfig,
  { isStopping, log, state: view }: Monitored,
): Promise<Monitoring | undefined> {
  if (address === undefined) return undefined;
  const { startControllerMonitoring } = await import('./controller/monitoring.ts');
  const identity = { version, driver, controller };
  return startControllerMonitoring({ address, socketPath, identity, view, isStopping, log });
}

/** The audience of a node's token. */
function audienceOf(driverName: string): string {
  return `${driverName}/controller`;
}

function identity(name: string, state: FleetState): IdentityHandlers {
  return {
    async GetPluginInfo() {
      return { name, vendor_version: version };
    },
    async GetPluginCapabilities() {
      return { capabilities: pluginCapabilities };
    },
    async Probe() {
      return { ready: { value: state.areNodesKnown } };
    },
  };
}
