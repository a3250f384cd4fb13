import { z } from 'zod';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

/** What the scheduler writes into a claim whose volume waits for its first consumer, and what the provisioner goes by. */
const selectedNode = 'volume.kubernetes.io/selected-node';

/** With whatever else is in it, which goes back as it came. */
const claim = z.looseObject({
  metadata: z.looseObject({
    uid: z.string().min(1),
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.looseObject({ volumeName: z.string().nullish() }),
});

const [notFound, conflict] = [404, 409];

export interface WaitingClaim {
  readonly namespace: string;
  readonly name: string;
  /** The volume that was asked for; the provisioner names it by the claim's UID. */
  readonly volumeName: string;
}

/** Whose volume is asked for; undefined: the provisioner does not say (--extra-create-metadata). */
export function claimOf(volumeName: string, parameters: Readonly<Record<string, string>>): WaitingClaim | undefined {
  const namespace = parameters['csi.storage.k8s.io/pvc/namespace'];
  const name = parameters['csi.storage.k8s.io/pvc/name'];
  return namespace === undefined || name === undefined ? undefined : { namespace, name, volumeName };
}

/**
 * Has a claim that waits for its first consumer made on another node than the scheduler chose. The scheduler sends its pod
 * after it.
 * @returns false: it waits for nobody, is sent there already, is another one by now, or somebody else changes it just now
 * @throws Unavailable
 */
export async function sendClaim(
  api: KubernetesApi,
  { name, namespace, volumeName }: WaitingClaim,
  node: string,
): Promise<boolean> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/persistentvolumeclaims/${encodeURIComponent(name)}`;
  try {
    const what = `show claim ${namespace}/${name}`;
    const found = readAnswer(claim, await api.call({ path, what }), what);
    const { annotations, uid } = found.metadata;
    const chosen = annotations?.[selectedNode];
    const isBound = (found.spec.volumeName ?? '') !== '';
    if (!volumeName.endsWith(uid) || isBound || chosen === undefined || chosen === node) return false;
    const metadata = { ...found.metadata, annotations: { ...annotations, [selectedNode]: node } };
    // With its resourceVersion: what the scheduler or the provisioner changes meanwhile is not undone.
    await api.call({ method: 'PUT', path, body: { ...found, metadata }, what: `change claim ${namespace}/${name}` });
    return true;
  } catch (error) {
    if (error instanceof ApiRefusal && (error.status === notFound || error.status === conflict)) return false;
    throw error;
  }
}
