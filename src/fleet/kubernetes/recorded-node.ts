import { z } from 'zod';
import { topologyKey } from '../../volume/topology.ts';
import { readAnswer } from './answer.ts';
import type { KubernetesApi } from './api.ts';

const expression = z.object({ key: z.string(), operator: z.string(), values: z.array(z.string()).nullish() });
const affinity = z.object({
  required: z.object({
    nodeSelectorTerms: z.array(z.object({ matchExpressions: z.array(expression).nullish() })),
  }),
});
const volumes = z.object({
  metadata: z.object({ continue: z.string().optional() }),
  items: z.array(
    z.object({
      spec: z.object({
        csi: z.object({ driver: z.string(), volumeHandle: z.string() }).nullish(),
        nodeAffinity: affinity.nullish().catch(undefined),
      }),
    }),
  ),
});

const pageSize = 500;

/**
 * The node that a PersistentVolume says its volume is on; undefined: no PersistentVolume names it, or none of one node. It is
 * asked for what no node has: Kubernetes may know of a node that the controller has never met.
 */
export async function recordedNode(
  api: KubernetesApi,
  driverName: string,
  volumeId: string,
): Promise<string | undefined> {
  let next = '';
  do {
    const query = new URLSearchParams({ limit: String(pageSize), ...(next === '' ? {} : { continue: next }) });
    const what = 'list PersistentVolumes';
    const answer = await api.call({ path: `/api/v1/persistentvolumes?${query}`, what });
    const { items, metadata } = readAnswer(volumes, answer, what);
    for (const { spec } of items) {
      if (spec.csi?.driver !== driverName || spec.csi.volumeHandle !== volumeId) continue;
      const terms = spec.nodeAffinity?.required.nodeSelectorTerms ?? [];
      const ours = terms
        .flatMap(({ matchExpressions }) => matchExpressions ?? [])
        .find(({ key }) => key === topologyKey);
      return ours?.operator === 'In' && ours.values?.length === 1 ? ours.values[0] : undefined;
    }
    next = metadata.continue ?? '';
  } while (next !== '');
  return undefined;
}
