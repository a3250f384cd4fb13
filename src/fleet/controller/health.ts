import type { Page } from '../../metrics/listener.ts';
import { OwnSocket, textPage } from '../../metrics/own-socket.ts';
import { describe, untold } from '../routing/missing.ts';
import type { FleetView } from '../routing/view.ts';

export interface ControllerHealthOptions {
  /** The socket that the sidecars use. */
  readonly socketPath: string;
  readonly view: FleetView;
  readonly isStopping: () => boolean;
}

/** Whether a replica of the controller works. */
export class ControllerHealth {
  readonly #options: ControllerHealthOptions;
  readonly #socket: OwnSocket;

  constructor(options: ControllerHealthOptions) {
    this.#options = options;
    this.#socket = new OwnSocket(options.socketPath);
  }

  /** Whether a restart could do any good: that neither Kubernetes nor a node answers is mended by none. */
  async alive(): Promise<Page> {
    const { isStopping, socketPath } = this.#options;
    // Its socket is gone by then.
    if (isStopping()) return textPage(200, 'The controller is stopping.');
    const answer = await this.#socket.ask();
    return answer.answered
      ? textPage(200, 'The controller answers.')
      : textPage(503, `The controller does not answer at ${socketPath}: ${answer.problem}`);
  }

  /** Whether it serves its sidecars, and knows which nodes there are. A node that is away is told, and no more. */
  async ready(): Promise<Page> {
    const { isStopping, view } = this.#options;
    if (isStopping()) return textPage(503, 'The controller is stopping.');
    const answer = await this.#socket.ask();
    if (!answer.answered || answer.problem !== undefined) return textPage(503, answer.problem ?? '');
    if (!view.areNodesKnown) return textPage(503, 'Kubernetes has not said yet which nodes have the driver.');
    const missing = untold(view);
    const linked = `${view.nodes.length - missing.length} of ${view.nodes.length} nodes are there`;
    return textPage(
      200,
      `The controller is ready: ${missing.length === 0 ? linked : `${linked}; ${describe(missing)}`}.`,
    );
  }
}
