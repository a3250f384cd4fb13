import { z } from 'zod';
import type { ControllerConfig } from '../../config/controller-config.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

export type TaintEffect = NonNullable<ControllerConfig['taintQuarantine']>;

/** A taint of Kubernetes, with all other fields. */
const taint = z.looseObject({ key: z.string(), effect: z.string() });
export type Taint = z.infer<typeof taint>;

const node = z.object({
  metadata: z.object({ resourceVersion: z.string(), uid: z.string() }),
  spec: z.object({ taints: z.array(taint).nullish() }),
});

const [notFound, conflict, invalid] = [404, 409, 422];
/** Limit of tries: a node's status changes all the time, and other programs have taints on it, too. */
const maxTurns = 10;

/** The wanted taints of a node: all others unchanged; undefined: it has them. */
export function taintsWith(
  taints: readonly Taint[],
  key: string,
  effect: TaintEffect | undefined,
): readonly Taint[] | undefined {
  const own = taints.filter((one) => one.key === key);
  const isRight = effect === undefined ? own.length === 0 : own.length === 1 && own[0]?.effect === effect;
  if (isRight) return undefined;
  const others = taints.filter((one) => one.key !== key);
  return effect === undefined ? others : [...others, { key, effect }];
}

export interface WantedTaint {
  readonly key: string;
  readonly effect: TaintEffect | undefined;
  /** The Node with this uid is left unchanged. */
  readonly exceptUid?: string | undefined;
}

export interface TaintOutcome {
  readonly isNew: boolean;
  /** The uid of the Node; undefined: there is no Node. */
  readonly uid: string | undefined;
}

/**
 * Adds the taint with this key to a node, or removes it. Concurrent changes are not lost: the API server changes the
 * node only if it is still as it was read.
 * @throws Unavailable
 */
export async function setTaint(
  api: KubernetesApi,
  name: string,
  { effect, exceptUid, key }: WantedTaint,
): Promise<TaintOutcome> {
  const path = `/api/v1/nodes/${encodeURIComponent(name)}`;
  for (let turn = 1; ; turn++) {
    try {
      const what = 'show a node';
      const { metadata, spec } = readAnswer(node, await api.call({ path, what }), what);
      const { resourceVersion, uid } = metadata;
      const taints = uid === exceptUid ? undefined : taintsWith(spec.taints ?? [], key, effect);
      if (taints === undefined) return { isNew: false, uid };
      const body = [
        { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
        { op: 'add', path: '/spec/taints', value: taints },
      ];
      const contentType = 'application/json-patch+json';
      await api.call({ method: 'PATCH', path, body, contentType, what: `change the taints of ${name}` });
      return { isNew: true, uid };
    } catch (error) {
      if (!(error instanceof ApiRefusal)) throw error;
      if (error.status === notFound) return { isNew: false, uid: undefined };
      if (![conflict, invalid].includes(error.status) || turn >= maxTurns) throw error;
    }
  }
}
