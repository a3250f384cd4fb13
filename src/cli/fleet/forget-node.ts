import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { ControllerConfig } from '../../config/controller-config.ts';
import type { HttpAddress } from '../../config/environment.ts';
import { KubernetesApi } from '../../fleet/kubernetes/api.ts';
import { isNodeThere } from '../../fleet/kubernetes/classes.ts';
import { forgetNode, objectionMs, readForgotten, rememberNode } from '../../fleet/kubernetes/forgotten.ts';
import { type RecordedVolume, volumesOn } from '../../fleet/kubernetes/persistent-volumes.ts';
import type { ObjectPlace } from '../../fleet/kubernetes/stored-object.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { exitCodes, type Output, toJson } from '../output/output.ts';
import type { Shape } from '../output/shapes.ts';
import { tableLines } from '../output/table.ts';
import { printable } from '../output/text.ts';

export interface ForgetWishes {
  readonly node: string;
  /** Although its Node object is there. */
  readonly evenSo: boolean;
  readonly dryRun: boolean;
  readonly undo: boolean;
  readonly json: boolean;
}

type Lost = Shape<'forget-node'>['volumes'][number];

const columns = [
  { title: 'PERSISTENTVOLUME' },
  { title: 'CLAIM' },
  { title: 'PHASE' },
  { title: 'POLICY' },
  { title: 'VOLUME' },
] as const;

/** The parts that forgetting a node needs. */
export interface ForgettingParts {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly driverName: string;
  /** The state of the node, as a replica of the controller has it; undefined: it is not known. @throws Unavailable */
  readonly sightOf: (node: string) => Promise<{ readonly isLinked: boolean } | undefined>;
  /** The nodes that say they have a volume. Undefined: no node can be asked here. */
  readonly holdersOf?: (volumeId: string) => readonly string[];
}

/** `holdfast forget-node NODE`, in a container of the controller: nothing waits any more for a node that will not return. */
export async function forgetNodeCommand(
  config: ControllerConfig,
  output: Output,
  wishes: ForgetWishes,
): Promise<number> {
  const { driverName, httpAddress } = config;
  const api = new KubernetesApi(config.api);
  try {
    const place = { namespace: config.namespace, name: config.secretName };
    // Without monitoring this replica is not asked: it takes the note back if it has a link, as the others do.
    const sight = async (node: string) => (httpAddress === undefined ? undefined : sightAt(httpAddress, node));
    return await forget({ api, place, driverName, sightOf: sight }, output, wishes);
  } finally {
    api.close();
  }
}

/** The same with any access to the cluster. @throws FailedPrecondition, Unavailable */
export async function forget(parts: ForgettingParts, output: Output, wishes: ForgetWishes): Promise<number> {
  const { api, driverName, holdersOf, place } = parts;
  const { dryRun, evenSo, json, node, undo } = wishes;
  if (undo) {
    await rememberNode(api, place, node);
    if (json) output.line(toJson<'forget-node'>({ node, done: 'undone', volumes: [] }));
    else output.line(`Node ${node} may link again. Volumes that Kubernetes has dropped meanwhile are still on it.`);
    return exitCodes.ok;
  }
  const isSeen = await requireGone(parts, wishes);
  const recorded = await volumesOn(api, driverName, node);
  if (!dryRun && !evenSo && !isSeen && recorded.length === 0) throw unknown(node);
  // A move has ended whose PersistentVolume was not changed.
  const holderOf = ({ handle }: RecordedVolume) => holdersOf?.(handle).find((holder) => holder !== node);
  const volumes = recorded.filter((volume) => holderOf(volume) === undefined);
  if (!json) {
    for (const line of tableLines(columns, volumes.map(rowOf))) output.line(line);
    for (const volume of recorded) {
      const holder = holderOf(volume);
      if (holder !== undefined) output.line(elsewhere(volume, holder));
    }
  }
  if (!dryRun) {
    // The note may be that of a command that was interrupted.
    const { at } = await forgetNode(api, place, node);
    if (Date.now() - Date.parse(at) < 2 * objectionMs) {
      if (!json) output.line(`Asking all replicas of the controller: ${objectionMs / 1000} seconds …`);
      await delay(objectionMs);
      if (!(await readForgotten(api, place)).has(node)) throw linked(node);
    }
    if (!json)
      output.line(
        `Node ${node} is forgotten. Released volumes are removed automatically; delete the claims of Bound ones${holdersOf === undefined ? ', if no other node has their volume: kubectl holdfast volumes' : ''}.`,
      );
  }
  if (json) {
    const done = dryRun ? 'nothing' : 'forgotten';
    output.line(toJson<'forget-node'>({ node, done, volumes: volumes.map(lostOf) }));
  }
  return exitCodes.ok;
}

function elsewhere({ claim, handle, name }: RecordedVolume, holder: string): string {
  const volume = `Volume ${printable(handle)} of PersistentVolume ${name} is on node ${holder}, and not lost, unless all disks of that node were put back to a time before its move`;
  return claim === undefined
    ? `${volume}.`
    : `${volume}: keep its claim. kubectl holdfast move --resume ${claim.namespace}/${claim.name} makes the PersistentVolume name that node.`;
}

function rowOf({ claim, handle, name, phase, reclaimPolicy }: RecordedVolume): string[] {
  return [name, claim === undefined ? '' : `${claim.namespace}/${claim.name}`, phase, reclaimPolicy, printable(handle)];
}

function lostOf({ claim, handle, name, phase, reclaimPolicy }: RecordedVolume): Lost {
  const { namespace = '', name: claimName = '' } = claim ?? {};
  const shown = claim === undefined ? {} : { claim: { namespace, name: claimName } };
  return { persistentVolume: name, ...shown, phase, reclaimPolicy, id: handle };
}

/** A wrong name would be refused a link one day, and the operator wait in vain. */
function unknown(node: string): FailedPrecondition {
  return new FailedPrecondition(
    `No node ${node} is known: no PersistentVolume names it, and the controller has not seen it. Look at the name; or add --even-so.`,
  );
}

function linked(node: string): FailedPrecondition {
  return new FailedPrecondition(
    `Node ${node} has a link to the controller, so it is not gone: stop its driver first. Nothing is forgotten.`,
  );
}

/** @returns whether the controller knows the node. @throws FailedPrecondition, Unavailable */
async function requireGone(
  { api, sightOf }: ForgettingParts,
  { dryRun, evenSo, node }: ForgetWishes,
): Promise<boolean> {
  if (dryRun) return false;
  const sight = await sightOf(node);
  if (sight?.isLinked === true) throw linked(node);
  if (!evenSo && (await isNodeThere(api, node))) {
    throw new FailedPrecondition(
      `Node ${node} is still there: kubectl delete node ${node}, if it never comes back; or add --even-so.`,
    );
  }
  return sight !== undefined;
}

const answerMs = 5_000;

const nodesPage = z.object({ nodes: z.array(z.object({ name: z.string(), isLinked: z.boolean() })) });

/** By the replica in this container, at once; the others take the note back if they have a link. */
async function sightAt(
  { host = '127.0.0.1', port }: HttpAddress,
  node: string,
): Promise<{ readonly isLinked: boolean } | undefined> {
  const signal = AbortSignal.timeout(answerMs);
  const response = await fetch(`http://${isIPv6(host) ? `[${host}]` : host}:${port}/nodes`, { signal }).catch(
    () => undefined,
  );
  const parsed = parseJsonInput(nodesPage, (await response?.text()) ?? '');
  if (!('data' in parsed)) {
    throw new Unavailable('No controller answers here: run this in a container of the Deployment holdfast-controller.');
  }
  return parsed.data.nodes.find(({ name }) => name === node);
}
