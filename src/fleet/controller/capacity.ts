import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { topologyKey } from '../../volume/topology.ts';
import { sumCapacity } from '../routing/capacity.ts';
import type { FleetState } from './fleet-state.ts';
import type { NodeSession } from './node-session.ts';
import type { Sessions } from './sessions.ts';

const requestType = contract.lookupType('csi.v1.GetCapacityRequest');
const responseType = contract.lookupType('csi.v1.GetCapacityResponse');

/** Time for the first answer of a node to a question. */
const firstAnswerMs = 5_000;

/** Limit of questions: one for each class and kind of volume. Beyond it the oldest are dropped. */
const maxQuestions = 500;

/** A node that is away for longer counts as having no room. */
const longestAbsenceMs = 5 * 60_000;

const nothing: wire.GetCapacityResponse = decode(responseType, Buffer.alloc(0));

interface Question {
  readonly id: bigint;
  readonly request: Buffer;
}

/**
 * The capacity that nodes have reported. Each node is asked once for each class, and reports changes automatically: the
 * provisioner asks for every class and node once a minute, which would be thousands of calls.
 */
export class FleetCapacity {
  readonly #sessions: Sessions;
  /** Key: the request without its topology, as text. */
  readonly #questions = new Map<string, Question>();
  readonly #state: FleetState;
  readonly #now: () => number;
  #last = 0n;

  constructor(sessions: Sessions, state: FleetState, now: () => number = Date.now) {
    this.#sessions = sessions;
    this.#state = state;
    this.#now = now;
  }

  /**
   * Answers from the reports. A node that stays away has no room: the scheduler picks another. A node that has not
   * answered yet, or is away for a moment, as all are after a start of the controller, is no reason to report zero:
   * after an error the provisioner keeps its last value.
   * @throws Unavailable
   */
  async answer(request: wire.GetCapacityRequest): Promise<Draft<wire.GetCapacityResponse>> {
    const question = this.#question(request);
    const segments = request.accessible_topology?.segments ?? {};
    const keys = Object.keys(segments);
    if (keys.length === 0) {
      const told = await Promise.all(this.#sessions.all().map((session) => this.#toldBy(session, question)));
      return sumCapacity(told.map((answer) => answer ?? nothing));
    }
    // No node is known to lie in a topology with another key.
    if (keys.some((key) => key !== topologyKey)) return sumCapacity([]);
    return sumCapacity([await this.#answerOf(segments[topologyKey] ?? '', question)]);
  }

  async #answerOf(node: string, question: Question): Promise<wire.GetCapacityResponse> {
    const session = this.#sessions.find(node);
    const told = session && (await this.#toldBy(session, question));
    if (told !== undefined) return told;
    const sight = this.#state.node(node);
    if (this.#state.areNodesKnown && sight === undefined) return nothing;
    if (sight !== undefined && !sight.isLinked && this.#now() - sight.sinceMs >= longestAbsenceMs) return nothing;
    throw new Unavailable(`The capacity of node ${node} is not known yet: it has not reported it; try again.`);
  }

  /** @returns undefined: no answer yet */
  async #toldBy(session: NodeSession, { id, request }: Question): Promise<wire.GetCapacityResponse | undefined> {
    if (session.ask(id, request)) await withTimeout(firstAnswerMs, session.capacityTold(id));
    const told = session.capacity.get(id);
    return told === undefined ? undefined : decode(responseType, told);
  }

  #question({ accessible_topology: _place, ...request }: wire.GetCapacityRequest) {
    const bytes = encode(requestType, request);
    const key = bytes.toString('base64');
    const known = this.#questions.get(key);
    if (known !== undefined) return known;
    const [oldest] = this.#questions.keys();
    if (this.#questions.size >= maxQuestions && oldest !== undefined) this.#questions.delete(oldest);
    this.#last++;
    const question = { id: this.#last, request: bytes };
    this.#questions.set(key, question);
    return question;
  }
}
