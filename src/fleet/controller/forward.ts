import type { Method } from '../../csi/contract.ts';
import { withoutSecrets } from '../../csi/without-secrets.ts';
import { HoldfastError, NotFound, Unavailable } from '../../volume/errors.ts';
import type { Route } from '../routing/by-id.ts';
import { type Forward, Refused } from './forwarded-calls.ts';
import { isNotFound } from './passed-on.ts';
import type { Sessions } from './sessions.ts';

/** An incoming call with the facts of its contract. */
export interface RoutedCall extends Omit<Forward, 'method'> {
  readonly method: Pick<Method, 'path' | 'requestType'>;
}

/** Sends a call along its route, and returns the node's answer. */
export async function forward(sessions: Sessions, route: Route, call: RoutedCall): Promise<Buffer> {
  const { method, request } = call;
  if (route.to === 'node') return sessions.get(route.node).calls.call({ ...call, method: method.path });
  // Calls for an object without a known owner carry no secrets: not every node of the fleet may see them.
  const bare = { ...call, method: method.path, request: withoutSecrets(method.requestType, request) };
  if (route.to === 'all') return askAll(sessions, route.nodes, bare);
  const [any] = route.nodes;
  if (any === undefined) throw new Unavailable('No node has a link to the controller; try again.');
  return sessions.get(any).calls.call(bare);
}

/**
 * The same for a snapshot that no node is known to have. It may move in the first look, to a node that has been asked already: "not found",
 * and success of a deletion, are true when all nodes have said it twice.
 */
export async function forwardTwice(sessions: Sessions, route: Route, call: RoutedCall): Promise<Buffer> {
  await forward(sessions, route, call).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
  return forward(sessions, route, call);
}

/**
 * Asks each node for an object without a known owner. A node that has it answers for all; "not found" and success of a
 * deletion are true when all nodes say it.
 */
async function askAll(sessions: Sessions, nodes: readonly string[], call: Forward): Promise<Buffer> {
  const answers = await Promise.allSettled(nodes.map(async (node) => sessions.get(node).calls.call(call)));
  const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [asError(answer.reason)] : []));
  const serious = failures.find((error) => !isNotFound(error));
  if (serious !== undefined) throw serious;
  const done = answers.find((answer) => answer.status === 'fulfilled');
  if (done !== undefined) return done.value;
  throw failures[0] ?? new NotFound('There is no node that could have it.');
}

/**
 * Asks one node after the other for room. Continues only after a node that has none, or that was not asked because it
 * has too many calls, unless an earlier try is among them: after another failure the result is unknown.
 */
export async function forwardInTurn(sessions: Sessions, nodes: readonly string[], call: Forward): Promise<FirstAnswer> {
  let refusal: unknown = new Unavailable('No node has a link to the controller; try again.');
  for (const node of nodes) {
    const { calls } = sessions.get(node);
    const isAtIt = call.name !== undefined && calls.isMaking(call.name);
    try {
      return { node, response: await calls.call(call) };
    } catch (error) {
      const hasNoRoom = error instanceof HoldfastError && error.code === 'RESOURCE_EXHAUSTED';
      if (!hasNoRoom && (isAtIt || !(error instanceof Refused))) throw error;
      refusal = error;
    }
  }
  throw refusal;
}

export interface FirstAnswer {
  readonly node: string;
  readonly response: Buffer;
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('a call failed, without an error');
}
