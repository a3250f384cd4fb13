import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { readForgotten } from '../kubernetes/forgotten.ts';
import type { ObjectPlace } from '../kubernetes/stored-object.ts';
import type { FleetState } from './fleet-state.ts';

export interface ForgottenKeeperOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** An operator says it to one replica, in the Secret; the others hear of it in so long. */
const lookMs = 10_000;

/** Keeps the state at what the operator has said is gone. Resolves when that is known for the first time. */
export async function keepForgotten(options: ForgottenKeeperOptions): Promise<void> {
  const { signal } = options;
  while (!signal.aborted && !(await look(options))) await pause(signal);
  void lookOn(options);
}

async function lookOn(options: ForgottenKeeperOptions): Promise<void> {
  for (;;) {
    await pause(options.signal);
    if (options.signal.aborted) return;
    await look(options);
  }
}

async function look({ api, log, place, state }: ForgottenKeeperOptions): Promise<boolean> {
  try {
    const nodes = await readForgotten(api, place);
    for (const name of nodes.keys()) if (!state.wasForgotten(name)) log.warn({ node: name }, 'a node is forgotten');
    state.forget([...nodes.keys()]);
    return true;
  } catch (error) {
    log.warn({ reason: error instanceof Error ? error.message : 'unknown' }, 'forgotten nodes cannot be looked up');
    return false;
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await delay(lookMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
}
