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

/** A replica that was just started waits so long for the links of nodes: those that are away are away for the others, too. */
export const settlingMs = 60_000;

/** Whether a replica has heard of the nodes since it started. From then on it has: who goes away later is away for all. */
export class Settling {
  /** Nodes that had a link and had told all. */
  readonly #heard = new Set<string>();
  #sinceMs: number | undefined;
  #isOver = false;

  /** When it is over all that could be seen was seen once. */
  isOver(view: Pick<FleetView, 'areNodesKnown' | 'nodes'>, nowMs: number): boolean {
    if (this.#isOver || !view.areNodesKnown) return this.#isOver;
    this.#sinceMs ??= nowMs;
    for (const { hasTold, isLinked, name } of view.nodes) if (isLinked && hasTold) this.#heard.add(name);
    this.#isOver = nowMs - this.#sinceMs >= settlingMs || view.nodes.every(({ name }) => this.#heard.has(name));
    return this.#isOver;
  }
}

/** Whether a replica of the controller works. */
export class ControllerHealth {
  readonly #options: ControllerHealthOptions;
  readonly #socket: OwnSocket;
  readonly #settling = new Settling();

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

  /**
   * Whether it serves its sidecars, knows which nodes there are, and has heard of each of them once: in a rollout the replicas
   * before it stay until then. A node that is away is waited for a minute, and then told.
   */
  async ready(): Promise<Page> {
    const { isStopping, view } = this.#options;
    if (isStopping()) return textPage(503, 'The controller is stopping.');
    const answer = await this.#socket.ask();
    if (!answer.answered || answer.problem !== undefined) return textPage(503, answer.problem ?? '');
    if (!view.areNodesKnown) return textPage(503, 'Kubernetes has not said yet which nodes have the driver.');
    const missing = untold(view);
    const linked = `${view.nodes.length - missing.length} of ${view.nodes.length} nodes are there`;
    const sight = missing.length === 0 ? linked : `${linked}; ${describe(missing)}`;
    return this.#settling.isOver(view, Date.now())
      ? textPage(200, `The controller is ready: ${sight}.`)
      : textPage(503, `The controller waits for the links of its nodes, for a minute at most: ${sight}.`);
  }
}
