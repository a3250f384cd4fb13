import type { Logger } from 'pino';
import type { Answer } from '../../page/answer.ts';
import type { FleetMoves } from '../controller/fleet-moves.ts';
import type { FleetState } from '../controller/fleet-state.ts';
import type { Sessions } from '../controller/sessions.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import type { ObjectPlace } from '../kubernetes/stored-object.ts';
import { Viewers } from '../kubernetes/viewers.ts';
import type { Material } from '../tls/material.ts';
import type { Watch } from './page-streams.ts';
import type { ChangeWishes, ViewWishes } from './request.ts';
import { ViewServer, type ViewServerOptions } from './view-server.ts';

/** The parts of the fleet that a query needs. */
export interface ViewedFleet {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly driverName: string;
  readonly moves: FleetMoves;
}

/** The parts of the fleet that a change needs. */
export interface ChangedFleet extends ViewedFleet {
  readonly api: KubernetesApi;
  /** The controller's Secret. */
  readonly place: ObjectPlace;
}

/** Renders the nodes' answers: as the commands do. */
export interface Show {
  readonly look: (fleet: ViewedFleet, wishes: ViewWishes, signal: AbortSignal) => Promise<Answer>;
  readonly change: (fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal) => Promise<Answer>;
  /** Keeps a board of the fleet current, until it is disposed of. */
  readonly watch: (fleet: ViewedFleet) => Watch;
  readonly refuse: ViewServerOptions['refuse'];
}

export interface ViewOptions extends ChangedFleet {
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly material: Material;
  readonly log: Logger;
  readonly show: Show;
}

/** The audience of a viewer's token. */
function viewAudienceOf(driverName: string): string {
  return `${driverName}/view`;
}

/** Serves the view. The controller works without it, so a port that is taken stops nothing. */
export async function startView(options: ViewOptions): Promise<ViewServer | undefined> {
  const { address, api, driverName, log, material, show } = options;
  const viewers = new Viewers(api, { audience: viewAudienceOf(driverName), group: driverName });
  const server = new ViewServer({
    ...address,
    material,
    log,
    driverName,
    viewers,
    look: (wishes, signal) => show.look(options, wishes, signal),
    change: (wishes, signal) => show.change(options, wishes, signal),
    watch: () => show.watch(options),
    refuse: show.refuse,
  });
  try {
    await server.listen();
    log.info({ port: server.port }, 'listening for viewers of the fleet');
    return server;
  } catch (error) {
    log.error({ reason: error instanceof Error ? error.message : error }, 'cannot serve the view of the fleet');
    return undefined;
  }
}
