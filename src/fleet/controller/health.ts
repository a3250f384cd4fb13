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

/**
 * Time that a new replica waits for the links of nodes: nodes that are away then are away for the other replicas, too.
 */
export const settlingMs = 60_000;

/**
 * Tracks if a replica has heard from the nodes since it started. Afterwards it stays over: a node that goes away later
 * is away for all replicas.
 */
export class Settling {
  /** Nodes that had a link and had reported all. */
  readonly #heard = new Set<string>();
  #sinceMs: number | undefined;
  #isOver = false;

  /** Answers true once all nodes were heard from, or the waiting time is over. */
  isOver(view: Pick<FleetView, 'areNodesKnown' | 'nodes'>, nowMs: number): boolean {
    if (this.#isOver || !view.areNodesKnown) return this.#isOver;
    this.#sinceMs ??= nowMs;
    for (const { hasTold, isLinked, name } of view.nodes) if (isLinked && hasTold) this.#heard.add(name);
    this.#isOver = nowMs - this.#sinceMs >= settlingMs || view.nodes.every(({ name }) => this.#heard.has(name));
    return this.#isOver;
  }
}

/** The health of a replica of the controller. */
export class ControllerHealth {
  readonly #options: ControllerHealthOptions;
  readonly #socket: OwnSocket;
  readonly #settling = new Settling();

  constructor(options: ControllerHealthOptions) {
    this.#options = options;
    this.#socket = new OwnSocket(options.socketPath);
  }

  /**
   * Answers if the controller responds; otherwise a restart may help. A restart does not help if Kubernetes or a node
   * does not answer.
   */
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
   * Answers if it serves its sidecars, knows which nodes there are, and has heard from each of them once: in a rollout
   * the old replicas stay until then. A node that is away is awaited for a minute, and then reported.
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
