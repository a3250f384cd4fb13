import { z } from 'zod';
import { type Claim, claimOf } from '../../volume/claim.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

/**
 * The annotation by which the scheduler assigns a claim that waits for its first consumer, and which the provisioner
 * follows.
 */
const selectedNode = 'volume.kubernetes.io/selected-node';

/** Keeps all other fields, which are written back unchanged. */
const claim = z.looseObject({
  metadata: z.looseObject({
    uid: z.string().min(1),
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.looseObject({ volumeName: z.string().nullish() }),
});

const [notFound, conflict] = [404, 409];

export interface WaitingClaim extends Claim {
  /** The volume of the request; the provisioner names it by the claim's UID. */
  readonly volumeName: string;
}

/** The claim that the request is for; undefined: the provisioner does not name it (--extra-create-metadata). */
export function waitingClaim(
  volumeName: string,
  parameters: Readonly<Record<string, string>>,
): WaitingClaim | undefined {
  const found = claimOf({ parameters });
  return found && { ...found, volumeName };
}

/**
 * Moves a claim that waits for its first consumer to another node than the scheduler chose. The scheduler sends its pod
 * after it.
 * @returns false: it does not wait for a consumer, is sent there already, is another one by now, or is being changed by
 * another client
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
    // With its resourceVersion: concurrent changes of the scheduler or the provisioner are not undone.
    await api.call({ method: 'PUT', path, body: { ...found, metadata }, what: `change claim ${namespace}/${name}` });
    return true;
  } catch (error) {
    if (error instanceof ApiRefusal && (error.status === notFound || error.status === conflict)) return false;
    throw error;
  }
}
