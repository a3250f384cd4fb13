import { createHash } from 'node:crypto';
import { ApiRefusal, type KubernetesApi } from './api.ts';
import { dateTime } from './date-time.ts';

/** A claim, and its volume. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly volumeId: string;
}

/** An event for a claim: its node is away; is back; is back without the volume. */
export interface Notice {
  readonly kind: 'away' | 'back' | 'missing';
  readonly claim: Claim;
  readonly node: string;
  /** Date and time of the absence. */
  readonly since: string;
}

const words = {
  away: {
    type: 'Warning',
    reason: 'NodeAway',
    message: ({ node, since }: Notice) =>
      `The volume is on node ${node}, which is away since ${since}: its driver has no link to the controller. ` +
      'The data stays on its disks. See the node, and the driver on it. ' +
      `If the node never comes back: holdfast forget-node ${node}, and delete the claim.`,
  },
  back: {
    type: 'Normal',
    reason: 'NodeBack',
    message: ({ node, since }: Notice) => `Node ${node} is back, which was away since ${since}, and has the volume.`,
  },
  missing: {
    type: 'Warning',
    reason: 'NodeBackWithoutVolume',
    message: ({ node, since }: Notice) =>
      `Node ${node} is back, which was away since ${since}, and does not have the volume: see its pools and its disks. ` +
      'Did another machine come under its name?',
  },
} as const;

/** The same for the same notice from any replica: Kubernetes keeps one event of a name. */
export function noticeName({ claim, kind, node, since }: Notice): string {
  const digest = createHash('sha256').update([claim.uid, node, since, kind].join('\n')).digest('hex');
  return `holdfast.${digest.slice(0, 32)}`;
}

export interface NoticeSender {
  readonly driverName: string;
  /** Name of the replica. */
  readonly controller: string;
}

/** An event, of the core group, in which the sidecars send theirs. */
export interface ClaimEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly message: string;
}

export function eventOf(notice: Notice, { controller, driverName }: NoticeSender, nowMs: number): ClaimEvent {
  const { claim, kind } = notice;
  const { name, namespace, uid } = claim;
  const { message, reason, type } = words[kind];
  const at = dateTime(nowMs);
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: noticeName(notice), namespace },
    involvedObject: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid },
    type,
    reason,
    message: message(notice),
    source: { component: driverName, host: controller },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  return event;
}

/**
 * Writes the event, or finds it written; or returns the refusal if another try makes no sense: it is not allowed, or
 * the namespace is being deleted.
 * @throws Unavailable
 */
export async function sendEvent(api: KubernetesApi, event: ClaimEvent): Promise<'sent' | ApiRefusal> {
  const path = `/api/v1/namespaces/${encodeURIComponent(event.metadata.namespace)}/events`;
  try {
    await api.call({ method: 'POST', path, body: event, what: 'make an event' });
    return 'sent';
  } catch (error) {
    if (!(error instanceof ApiRefusal) || isForLater(error)) throw error;
    // The other replica was faster, or this one before its restart.
    return error.reason === 'AlreadyExists' ? 'sent' : error;
  }
}

const [unauthorized, conflict, tooMany] = [401, 409, 429];

/** A token may be in renewal; a quota that many requests count against refuses some of them, for now. */
function isForLater({ reason, status }: ApiRefusal): boolean {
  const isBusy = status === conflict && reason !== 'AlreadyExists';
  return isBusy || status === unauthorized || status === tooMany || status >= 500;
}
