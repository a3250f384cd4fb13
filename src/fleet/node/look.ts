import { methodsOf } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { type CallOptions, handledStream, type StreamCall, streamCall } from '../../csi/pipeline.ts';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';

/** A query of the controller, as in proto/fleet.proto. */
export interface Question {
  readonly list: string;
  /** The id, the name or `namespace/claim` of one volume; undefined: all. */
  readonly volume: string | undefined;
}

export interface Looked {
  /** Objects in JSON, as the command of the same name prints them. */
  readonly items: readonly string[];
  readonly problems: readonly string[];
}

/** Answers a query about this node; undefined if the list is unknown. */
export type Look = (question: Question) => Promise<Looked | undefined>;

/** Limit of waiting queries. Each starts a process, and one runs at a time. */
const maxWaiting = 8;
/** Longer than a query takes on healthy disks; parts that a sick disk holds up are left out. */
const longestLookMs = 60_000;
/** Size of one message, unless a single item is longer. */
const partBytes = 128 * 1024;
/** The controller accepts no longer message (src/fleet/view/ask.ts). */
const longestItemBytes = 1024 * 1024;

/** The calls with which the controller queries this node. They change nothing. */
export function viewStreams(look: Look, options: CallOptions): ReadonlyMap<string, StreamCall> {
  const inTurn = new OneByOne(look);
  const calls = methodsOf('holdfast.fleet.v1.View').map((method) => {
    const work = async function* ({ list, volume }: wire.LookRequest) {
      const looked = await inTurn.look({ list, volume: volume === '' ? undefined : volume });
      if (looked === undefined) throw new UnknownList(`This driver does not know the list ${JSON.stringify(list)}.`);
      yield* partsOf(looked);
    };
    return [method.path, streamCall(method, handledStream(method, work), options)] as const;
  });
  return new Map(calls);
}

/** A newer controller asks for a list that this driver does not have. */
class UnknownList extends HoldfastError {
  override readonly code = 'UNIMPLEMENTED';
}

class OneByOne {
  readonly #look: Look;
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(look: Look) {
    this.#look = look;
  }

  async look(question: Question): Promise<Looked | undefined> {
    if (this.#waiting >= maxWaiting) throw new Unavailable('Too many queries wait on the node; try again later.');
    this.#waiting++;
    const mine = this.#last.then(() => withTimeout(longestLookMs, this.#look(question)));
    this.#last = mine.catch(() => undefined);
    try {
      const looked = await mine;
      if (looked === 'late')
        throw new Unavailable('The node did not answer the query in time: a disk may hang. See its log.');
      return looked;
    } finally {
      this.#waiting--;
    }
  }
}

function* partsOf({ items, problems }: Looked): Generator<Draft<wire.LookPart>> {
  let part: string[] = [];
  let bytes = 0;
  let left = 0;
  for (const item of items) {
    const length = Buffer.byteLength(item);
    if (length > longestItemBytes) {
      left++;
      continue;
    }
    if (bytes + length > partBytes && part.length > 0) {
      yield { items: part };
      part = [];
      bytes = 0;
    }
    part.push(item);
    bytes += length;
  }
  const tooLong = left === 0 ? [] : [`${left} are too long to be shown from here: run the command on the node`];
  yield { items: part, problems: [...problems, ...tooLong] };
}
