import { probe } from '../../csi/probe.ts';
import type { Page } from '../../metrics/listener.ts';
import { describe, untold } from '../routing/missing.ts';
import type { FleetView } from '../routing/view.ts';

export interface ControllerHealthOptions {
  /** The socket that the sidecars use. */
  readonly socketPath: string;
  readonly view: FleetView;
  readonly isStopping: () => boolean;
}

/** Who asks should wait a little longer than this, as of the driver. */
const probeTimeoutMs = 4_000;

/** Whether a replica of the controller works. */
export class ControllerHealth {
  readonly #options: ControllerHealthOptions;
  #asking: ReturnType<typeof probe> | undefined;

  constructor(options: ControllerHealthOptions) {
    this.#options = options;
  }

  /** Whether a restart could do any good: that neither Kubernetes nor a node answers is mended by none. */
  async alive(): Promise<Page> {
    const { isStopping, socketPath } = this.#options;
    // Its socket is gone by then.
    if (isStopping()) return page(200, 'The controller is stopping.');
    const answer = await this.#ask();
    return answer.answered
      ? page(200, 'The controller answers.')
      : page(503, `The controller does not answer at ${socketPath}: ${answer.problem}`);
  }

  /** Whether it serves its sidecars, and knows which nodes there are. A node that is away is told, and no more. */
  async ready(): Promise<Page> {
    const { isStopping, view } = this.#options;
    if (isStopping()) return page(503, 'The controller is stopping.');
    const answer = await this.#ask();
    if (!answer.answered || answer.problem !== undefined) return page(503, answer.problem ?? '');
    if (!view.areNodesKnown) return page(503, 'Kubernetes has not said yet which nodes have the driver.');
    const missing = untold(view);
    const linked = `${view.nodes.length - missing.length} of ${view.nodes.length} nodes are there`;
    return page(200, `The controller is ready: ${missing.length === 0 ? linked : `${linked}; ${describe(missing)}`}.`);
  }

  #ask(): ReturnType<typeof probe> {
    this.#asking ??= probe(this.#options.socketPath, probeTimeoutMs).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }
}

function page(status: Page['status'], line: string): Page {
  return { status, contentType: 'text/plain; charset=utf-8', body: `${line}\n` };
}
