import type { z } from 'zod';
import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { InvalidArgument, NotFound } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import type { FleetState } from '../controller/fleet-state.ts';
import { LinkLost, PassedOn, TooLate } from '../controller/passed-on.ts';
import type { Sessions } from '../controller/sessions.ts';
import { untold } from '../routing/missing.ts';
import { toTheSecond } from '../routing/since.ts';
import type { NodeSight } from '../routing/view.ts';

const requestType = contract.lookupType('holdfast.fleet.v1.LookRequest');
const partType = contract.lookupType('holdfast.fleet.v1.LookPart');
const method = '/holdfast.fleet.v1.View/Look';

export interface FleetQuestion {
  readonly list: string;
  /** The id, the name or `namespace/claim` of one volume; undefined: all. */
  readonly volume: string | undefined;
  /** Only this node; undefined: all. */
  readonly node: string | undefined;
  /** Time that a node may take. All together may take twice as long. */
  readonly waitMs: number;
  /** Limit of one node's answer, in bytes; without it 32 MiB of a node that is asked alone, 4 MiB of one among others. */
  readonly maxBytesEach?: number;
  /** Aborted when no client waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** A node whose answer is missing or incomplete. */
export interface Missing {
  readonly node: string;
  /** away: it has no link. late: it has one, and did not answer. older: its driver does not know the list. */
  readonly reason: 'away' | 'late' | 'older' | 'failed' | 'cut';
  /** For `away`: since when, in RFC 3339. */
  readonly since?: string | undefined;
  readonly message: string;
}

export interface Told<Item> {
  readonly node: string;
  readonly item: Item;
}

/** The answers of the nodes, in the order of their names. */
export interface FleetAnswer<Item> {
  readonly items: readonly Told<Item>[];
  readonly problems: readonly { readonly node: string; readonly message: string }[];
  readonly missing: readonly Missing[];
}

/** Number of nodes that are asked at a time. */
const maxAtOnce = 128;
/** Parts of one node's answer that are in flight. */
const credit = 2;
/** Limits for all answers in memory, as JSON; and for one node's, unless it alone is asked. */
const maxBytes = 32 * 1024 * 1024;
const maxBytesEach = 4 * 1024 * 1024;
/** A driver sends parts of an eighth of a MiB, or one item of at most 1 MiB. */
const longestPartBytes = 2 * 1024 * 1024;
const maxItemsInPart = 10_000;
const maxUnread = 20;
const mistakesKept = 3;
const maxProblems = 20;
const longestProblem = 300;

/**
 * Asks the nodes' drivers. No node delays the answer for longer than `waitMs` allows; an answer must match the schema,
 * and is shown as that node's.
 * @throws NotFound, InvalidArgument
 */
export async function askFleet<Item>(
  parts: { readonly state: FleetState; readonly sessions: Sessions },
  question: FleetQuestion,
  schema: z.ZodType<Item>,
): Promise<FleetAnswer<Item>> {
  const nodes = whomToAsk(parts.state, question);
  const asking = new Asking(parts.sessions, question, schema);
  const waiting = nodes.map((node, index) => ({ node, index }));
  const answers: FleetAnswer<Item>[] = [];
  const turns = Array.from({ length: Math.min(maxAtOnce, nodes.length) }, async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      // No client waits for it any more.
      question.signal.throwIfAborted();
      answers[next.index] = await asking.ask(next.node);
    }
  });
  await Promise.all(turns);
  return {
    items: answers.flatMap(({ items }) => items),
    problems: answers.flatMap(({ problems }) => problems),
    missing: answers.flatMap(({ missing }) => missing),
  };
}

/** Chooses the nodes to ask: all; for a volume whose node is certain, only that node. */
function whomToAsk(state: FleetState, { node, volume }: FleetQuestion): readonly NodeSight[] {
  if (node !== undefined) return [requireNode(state, node)];
  if (volume === undefined) return state.nodes;
  if (Buffer.byteLength(volume) > 317) throw new InvalidArgument('No volume has such a long name.');
  const owners = state.owners(volume);
  // Any node can claim an id or a name: a claim is certain only if no other node can have it.
  const isSure = state.areNodesKnown && (owners.some(({ isNative }) => isNative) || untold(state).length === 0);
  const having = new Set([...owners, ...state.volumesNamed(volume)].map((owner) => owner.node));
  return isSure && having.size > 0 ? state.nodes.filter(({ name }) => having.has(name)) : state.nodes;
}

/** @throws NotFound */
export function requireNode(state: FleetState, name: string): NodeSight {
  const sight = state.node(name);
  if (sight !== undefined) return sight;
  throw new NotFound(`There is no node ${JSON.stringify(name)} with the driver: kubectl holdfast nodes shows them.`);
}

/** One query to all nodes. */
class Asking<Item> {
  readonly #sessions: Sessions;
  readonly #question: FleetQuestion;
  readonly #schema: z.ZodType<Item>;
  readonly #endsAt: number;
  #bytesLeft = maxBytes;

  constructor(sessions: Sessions, question: FleetQuestion, schema: z.ZodType<Item>) {
    this.#sessions = sessions;
    this.#question = question;
    this.#schema = schema;
    this.#endsAt = Date.now() + 2 * question.waitMs;
  }

  async ask({ isLinked, name: node, sinceMs }: NodeSight): Promise<FleetAnswer<Item>> {
    const gathered = new Gathered<Item>(node, this.#schema);
    const session = isLinked ? this.#sessions.find(node) : undefined;
    const { list, signal, volume = '', waitMs } = this.#question;
    const leftMs = Math.min(waitMs, this.#endsAt - Date.now());
    if (session === undefined) {
      const since = toTheSecond(isLinked ? Date.now() : sinceMs);
      return gathered.without({ node, reason: 'away', since, message: `it is away since ${since}` });
    }
    if (leftMs <= 0) {
      const message = 'it was not asked: too many others did not answer. Ask it alone (--node)';
      return gathered.without({ node, reason: 'late', message });
    }
    try {
      const request = encode(requestType, { list, volume });
      const deadline = new Date(Date.now() + leftMs);
      for await (const part of session.calls.stream({ method, request, deadline, credit }, signal)) {
        if (!this.#take(gathered, part)) {
          const message = 'it has more than is shown of one among others: ask it alone (--node), or look on the node';
          return gathered.without({ node, reason: 'cut', message });
        }
      }
      return gathered.answer();
    } catch (error) {
      return gathered.without(missingFor(node, error, leftMs));
    }
  }

  /** Answers if there was room for it. */
  #take(gathered: Gathered<Item>, bytes: Buffer): boolean {
    if (bytes.length > longestPartBytes) throw new BadAnswer('a part of it is too long');
    const maxEach = this.#question.maxBytesEach ?? (this.#question.node === undefined ? maxBytesEach : maxBytes);
    if (this.#bytesLeft < bytes.length || gathered.bytes + bytes.length > maxEach) return false;
    this.#bytesLeft -= bytes.length;
    gathered.add(bytes);
    return true;
  }
}

/** The received answer of one node. */
class Gathered<Item> {
  bytes = 0;
  readonly #node: string;
  readonly #schema: z.ZodType<Item>;
  readonly #items: Told<Item>[] = [];
  readonly #problems: string[] = [];
  #unread = 0;
  #mistakes: readonly string[] = [];

  constructor(node: string, schema: z.ZodType<Item>) {
    this.#node = node;
    this.#schema = schema;
  }

  /** @throws PassedOn if no driver of ours sends such an answer */
  add(bytes: Buffer): void {
    this.bytes += bytes.length;
    const { items, problems } = partIn(bytes);
    if (items.length > maxItemsInPart) throw new BadAnswer('a part of it has too many items');
    for (const item of items) {
      const parsed = isTooMuch(item) ? tooMuch : parseJsonInput(this.#schema, item);
      if ('data' in parsed) this.#items.push({ node: this.#node, item: parsed.data });
      else {
        this.#unread++;
        this.#mistakes = parsed.mistakes.slice(0, mistakesKept);
        if (this.#unread > maxUnread) throw new BadAnswer('too much of it cannot be read');
      }
    }
    const room = Math.max(0, maxProblems - this.#problems.length);
    this.#problems.push(...problems.slice(0, room).map((text) => text.slice(0, longestProblem)));
  }

  answer(): FleetAnswer<Item> {
    const unread = `${this.#unread} of its objects cannot be read here (${inOneSentence(this.#mistakes)})`;
    const problems = [...this.#problems, ...(this.#unread === 0 ? [] : [`${unread}: is its driver newer?`])];
    return {
      items: this.#items,
      problems: problems.map((message) => ({ node: this.#node, message })),
      missing: [],
    };
  }

  without(missing: Missing): FleetAnswer<Item> {
    return { ...this.answer(), missing: [missing] };
  }
}

/** Limit of a text: names, parameters and reasons are shorter, and a table of longer ones would take too long. */
const longestText = 4096;
/** Limit of values: each invalid value makes a message, and a node must not cause millions of them. */
const maxValues = 10_000;
const tooMuch = { mistakes: ['it has too long a text, or too many values'] };
const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];

/** Checked before parsing. */
function isTooMuch(json: string): boolean {
  let length = 0;
  let values = 0;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === comma) values++;
    // An escaped quote does not end a text.
    if (code === backslash) at++;
    length = code === quote ? 0 : length + 1;
    if (length > longestText || values > maxValues) return true;
  }
  return false;
}

/** An answer that no driver of ours sends. */
class BadAnswer extends Error {}

function partIn(bytes: Buffer): wire.LookPart {
  try {
    return decode<wire.LookPart>(partType, bytes);
  } catch {
    throw new BadAnswer('it is invalid');
  }
}

function missingFor(node: string, error: unknown, waitedMs: number): Missing {
  if (error instanceof TooLate) {
    const message = `it has a link, and did not answer within ${Math.ceil(waitedMs / 1000)} s`;
    return { node, reason: 'late', message };
  }
  if (error instanceof PassedOn && error.code === 'UNIMPLEMENTED') {
    return { node, reason: 'older', message: 'its driver is older and does not answer this: look on the node' };
  }
  const reason = error instanceof Error ? error.message.slice(0, longestProblem) : 'unknown';
  if (error instanceof LinkLost) return { node, reason: 'away', since: toTheSecond(Date.now()), message: reason };
  const message = error instanceof BadAnswer ? `its answer cannot be used: ${reason}` : reason;
  return { node, reason: 'failed', message };
}
