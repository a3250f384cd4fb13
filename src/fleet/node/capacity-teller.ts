import type { Calls } from '../../csi/call.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';

const getCapacity = '/csi.v1.Controller/GetCapacity';

/** Limit of questions: one for each class. More are an error of the controller. */
const maxQuestions = 500;

/** Longer than a pool takes to open. A pool that cannot be opened has no room, and must not keep an older figure. */
const openingMs = 60_000;

interface Question {
  readonly id: bigint;
  readonly request: Buffer;
  told: Buffer | undefined;
  /** Time since when the node has no answer, by `now`. */
  unansweredMs: number | undefined;
}

/** Reports the node's answers of GetCapacity over one link: to a new question, and when an answer changes. */
export class CapacityTeller {
  readonly #calls: Calls;
  readonly #send: (told: Draft<wire.CapacityTold>) => void;
  readonly #questions = new Map<bigint, Question>();

  readonly #now: () => number;

  constructor(calls: Calls, send: (told: Draft<wire.CapacityTold>) => void, now = () => performance.now()) {
    this.#calls = calls;
    this.#send = send;
    this.#now = now;
  }

  async ask({ question: id, request }: wire.CapacityQuestion): Promise<void> {
    // The controller drops its oldest, too.
    const [oldest] = this.#questions.keys();
    if (this.#questions.size >= maxQuestions && oldest !== undefined) this.#questions.delete(oldest);
    const question: Question = { id, request: Buffer.from(request), told: undefined, unansweredMs: undefined };
    this.#questions.set(id, question);
    await this.#tell(question);
  }

  async tell(): Promise<void> {
    for (const question of this.#questions.values()) await this.#tell(question);
  }

  async #tell(question: Question): Promise<void> {
    const incoming = { bytes: question.request, deadline: undefined, isGone: () => false };
    await this.#calls.unary.get(getCapacity)?.(incoming, (reply) => {
      // For example, a pool is being opened: the earlier report stays, and the question is repeated in a moment.
      if ('failure' in reply && reply.failure.code === 'UNAVAILABLE') {
        question.unansweredMs ??= this.#now();
        if (this.#now() - question.unansweredMs < openingMs) return;
      } else question.unansweredMs = undefined;
      // A question that cannot be answered, e.g. of an invalid class, counts as no room: its CreateVolume gives the
      // reason.
      const response = 'failure' in reply ? Buffer.alloc(0) : reply.response;
      if (question.told?.equals(response) === true) return;
      question.told = response;
      this.#send({ question: question.id, response });
    });
  }
}
