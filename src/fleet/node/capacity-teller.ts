import type { Calls } from '../../csi/call.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';

const getCapacity = '/csi.v1.Controller/GetCapacity';

/** A class is one question; who asks more has lost its mind. */
const mostQuestions = 500;

/** A pool is opened in less. One that cannot be opened has no room, and must not keep the figure of when it had some. */
const openingMs = 60_000;

interface Question {
  readonly id: bigint;
  readonly request: Buffer;
  told: Buffer | undefined;
  /** Since when the node has no answer, by `now`. */
  unansweredMs: number | undefined;
}

/** Tells over one link what the node's GetCapacity answers to each question, when it is asked and when that changes. */
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
    // The controller forgets its oldest, too.
    const [oldest] = this.#questions.keys();
    if (this.#questions.size >= mostQuestions && oldest !== undefined) this.#questions.delete(oldest);
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
      // A pool is being opened, for example: what was told before counts, and it is asked again in a moment.
      if ('failure' in reply && reply.failure.code === 'UNAVAILABLE') {
        question.unansweredMs ??= this.#now();
        if (this.#now() - question.unansweredMs < openingMs) return;
      } else question.unansweredMs = undefined;
      // One that cannot be answered, of a wrong class for example, has no room: its CreateVolume says why.
      const response = 'failure' in reply ? Buffer.alloc(0) : reply.response;
      if (question.told?.equals(response) === true) return;
      question.told = response;
      this.#send({ question: question.id, response });
    });
  }
}
