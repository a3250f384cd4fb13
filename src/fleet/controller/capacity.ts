import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { topologyKey } from '../../volume/topology.ts';
import { withTimeout } from '../../volume/with-timeout.ts';
import { sumCapacity } from '../routing/capacity.ts';
import type { NodeSession } from './node-session.ts';
import type { Sessions } from './sessions.ts';

const requestType = contract.lookupType('csi.v1.GetCapacityRequest');
const responseType = contract.lookupType('csi.v1.GetCapacityResponse');

/** A node that was never asked this before has so long to tell. */
const firstAnswerMs = 5_000;

/** One for each class and kind of volume; whoever asks more has lost his mind, and the oldest go. */
const mostQuestions = 500;

/**
 * What the nodes have told of their capacity. Each is asked once for each class, and tells by itself when its answer
 * changes: the provisioner asks for every class and node once a minute, which would be thousands of calls.
 */
export class FleetCapacity {
  readonly #sessions: Sessions;
  /** By the request without its topology, as text. */
  readonly #questions = new Map<string, { readonly id: bigint; readonly request: Buffer }>();
  #last = 0n;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** A node that is away has no room: the scheduler looks for another. */
  async answer(request: wire.GetCapacityRequest): Promise<Draft<wire.GetCapacityResponse>> {
    const question = this.#question(request);
    const asked = this.#nodesIn(request.accessible_topology?.segments ?? {});
    const told = await Promise.all(asked.map((session) => this.#toldBy(session, question)));
    return sumCapacity(told);
  }

  async #toldBy(
    session: NodeSession,
    { id, request }: { readonly id: bigint; readonly request: Buffer },
  ): Promise<wire.GetCapacityResponse> {
    if (session.ask(id, request)) await withTimeout(firstAnswerMs, session.capacityTold(id));
    return decode(responseType, session.capacity.get(id) ?? Buffer.alloc(0));
  }

  #question({ accessible_topology: _place, ...request }: wire.GetCapacityRequest) {
    const bytes = encode(requestType, request);
    const key = bytes.toString('base64');
    const known = this.#questions.get(key);
    if (known !== undefined) return known;
    const [oldest] = this.#questions.keys();
    if (this.#questions.size >= mostQuestions && oldest !== undefined) this.#questions.delete(oldest);
    this.#last++;
    const question = { id: this.#last, request: bytes };
    this.#questions.set(key, question);
    return question;
  }

  #nodesIn(segments: Readonly<Record<string, string>>): NodeSession[] {
    const keys = Object.keys(segments);
    if (keys.length === 0) return this.#sessions.all();
    // A key that is not ours describes a place that no node is known to be in.
    if (keys.some((key) => key !== topologyKey)) return [];
    return [this.#sessions.find(segments[topologyKey] ?? '')].filter((session) => session !== undefined);
  }
}
