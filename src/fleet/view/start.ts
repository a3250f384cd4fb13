import type { Logger } from 'pino';
import type { FleetState } from '../controller/fleet-state.ts';
import type { Sessions } from '../controller/sessions.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { Viewers } from '../kubernetes/viewers.ts';
import type { Material } from '../tls/material.ts';
import type { ViewWishes } from './request.ts';
import { type Answer, ViewServer, type ViewServerOptions } from './view-server.ts';

/** The parts of the fleet that a query needs. */
export interface ViewedFleet {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly driverName: string;
}

/** Renders the nodes' answers: as the commands do. */
export interface Show {
  readonly look: (fleet: ViewedFleet, wishes: ViewWishes, signal: AbortSignal) => Promise<Answer>;
  readonly refuse: ViewServerOptions['refuse'];
}

export interface ViewOptions extends ViewedFleet {
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly material: Material;
  readonly api: KubernetesApi;
  readonly log: Logger;
  readonly show: Show;
}

/** The audience of a viewer's token. */
export function viewAudienceOf(driverName: string): string {
  return `${driverName}/view`;
}

/** Serves the view. The controller works without it, so a port that is taken stops nothing. */
export async function startView(options: ViewOptions): Promise<ViewServer | undefined> {
  const { address, api, driverName, log, material, sessions, show, state } = options;
  const viewers = new Viewers(api, { audience: viewAudienceOf(driverName), group: driverName });
  const server = new ViewServer({
    ...address,
    material,
    log,
    admit: (token, list) => viewers.admit(token, list),
    look: (wishes, signal) => show.look({ state, sessions, driverName }, wishes, signal),
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
