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
  /** null: there are none. */
  items: z
    .array(
      z.object({
        metadata: z.object({ name: z.string() }),
        spec: z.object({
          csi: z.object({ driver: z.string(), volumeHandle: z.string() }).nullish(),
          nodeAffinity: affinity.nullish().catch(undefined),
          claimRef: z
            .object({ namespace: z.string(), name: z.string(), uid: z.string().default('') })
            .nullish()
            .catch(undefined),
          persistentVolumeReclaimPolicy: z.string().default('Retain'),
          storageClassName: z.string().default(''),
        }),
        status: z.object({ phase: z.string().default('') }).default({ phase: '' }),
      }),
    )
    .nullish(),
});

const pageSize = 500;

/** The PersistentVolumes of this driver in Kubernetes. */
export interface RecordedVolumes {
  /** The volume of the PersistentVolume with this name. */
  idOf(name: string): string | undefined;
  has(id: string): boolean;
}

/** The fields of a PersistentVolume of this driver. */
export interface RecordedVolume {
  /** Name of the PersistentVolume. */
  readonly name: string;
  /** The volume's id. */
  readonly handle: string;
  /** undefined: no node, or several. */
  readonly node: string | undefined;
  readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string } | undefined;
  readonly phase: string;
  readonly reclaimPolicy: string;
  /** Empty: none. */
  readonly className: string;
}

/** The PersistentVolumes of this driver. @throws Unavailable */
export async function* persistentVolumes(
  api: KubernetesApi,
  driverName: string,
): AsyncGenerator<RecordedVolume, void, void> {
  const what = 'list PersistentVolumes';
  let next = '';
  do {
    const query = new URLSearchParams({ limit: String(pageSize), ...(next === '' ? {} : { continue: next }) });
    const answer = await api.call({ path: `/api/v1/persistentvolumes?${query}`, what });
    const { items, metadata } = readAnswer(volumes, answer, what);
    for (const { metadata: object, spec, status } of items ?? []) {
      if (spec.csi?.driver !== driverName) continue;
      yield {
        name: object.name,
        handle: spec.csi.volumeHandle,
        node: nodeIn(spec.nodeAffinity),
        claim: spec.claimRef ?? undefined,
        phase: status.phase,
        reclaimPolicy: spec.persistentVolumeReclaimPolicy,
        className: spec.storageClassName,
      };
    }
    next = metadata.continue ?? '';
  } while (next !== '');
}

function nodeIn(nodeAffinity: z.infer<typeof affinity> | null | undefined): string | undefined {
  const ours = (nodeAffinity?.required.nodeSelectorTerms ?? [])
    .flatMap(({ matchExpressions }) => matchExpressions ?? [])
    .find(({ key }) => key === topologyKey);
  return ours?.operator === 'In' && ours.values?.length === 1 ? ours.values[0] : undefined;
}

/** The PersistentVolumes that a node has, or had. */
export async function volumesOn(api: KubernetesApi, driverName: string, node: string): Promise<RecordedVolume[]> {
  const found: RecordedVolume[] = [];
  for await (const volume of persistentVolumes(api, driverName)) if (volume.node === node) found.push(volume);
  return found;
}

/** All recorded volumes. */
export async function recordedVolumes(api: KubernetesApi, driverName: string): Promise<RecordedVolumes> {
  const ids = new Map<string, string>();
  const handles = new Set<string>();
  for await (const { handle, name } of persistentVolumes(api, driverName)) {
    ids.set(name, handle);
    handles.add(handle);
  }
  return { idOf: (name) => ids.get(name), has: (id) => handles.has(id) };
}
