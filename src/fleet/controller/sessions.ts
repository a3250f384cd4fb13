import { Unavailable } from '../../volume/errors.ts';
import type { FleetState } from './fleet-state.ts';
import type { NodeSession } from './node-session.ts';

/** The current links: for each node the latest one. */
export class Sessions {
  readonly #byNode = new Map<string, NodeSession>();
  readonly #state: FleetState;

  constructor(state: FleetState) {
    this.#state = state;
  }

  /** A restarted driver comes back before its old link is known to be dead. */
  ready(session: NodeSession): void {
    const before = this.#byNode.get(session.node);
    this.#byNode.set(session.node, session);
    before?.end('the node has a new link');
  }

  ended(session: NodeSession): void {
    if (this.#byNode.get(session.node) !== session) return;
    this.#byNode.delete(session.node);
    this.#state.away(session.node);
  }

  all(): NodeSession[] {
    return [...this.#byNode.values()];
  }

  find(node: string): NodeSession | undefined {
    return this.#byNode.get(node);
  }

  /** @throws Unavailable */
  get(node: string): NodeSession {
    const session = this.#byNode.get(node);
    if (session === undefined) throw new Unavailable(`Node ${node} has just lost its link; try again.`);
    return session;
  }
}
