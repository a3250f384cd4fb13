import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { topologyKey } from '../../volume/topology.ts';
import { readAnswer } from './answer.ts';
import type { KubernetesApi } from './api.ts';

const metadata = z.object({ name: z.string(), labels: z.record(z.string(), z.string()).optional() });
const driver = z.object({ name: z.string(), topologyKeys: z.array(z.string()).nullish() });
const csiNode = z.object({ metadata, spec: z.object({ drivers: z.array(driver).nullish() }) });
const node = z.object({ metadata });
const list = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  /** null: there are none. */
  items: z.array(z.unknown()).nullish(),
});
const event = z.object({ type: z.string(), object: z.unknown() });

/** Only the existence of a node matters: its status is long, and changes all the time. */
const metadataList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const metadataEvents = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

const pageSize = 500;
const watchSeconds = 300;
/** The server ends a watch before that. */
const defaultWatchLimitMs = (watchSeconds + 30) * 1000;
const pauseMs = 1_000;

export interface CsiNode {
  readonly isOurs: boolean;
  /** Another driver uses the same topology key there. */
  readonly isAnothers: boolean;
}

export interface NodeWatchOptions {
  readonly api: KubernetesApi;
  readonly driverName: string;
  readonly log: Logger;
  readonly expect: (names: readonly string[]) => void;
  readonly signal: AbortSignal;
  readonly watchLimitMs?: number;
}

/**
 * Watches which nodes have the driver. While a driver restarts the kubelet removes it from the CSINode, and a node that
 * is not expected would count as one without volumes; the label that the kubelet gave its Node stays. So a node is
 * expected if either names it.
 */
export async function watchNodes({
  api,
  driverName,
  expect,
  log,
  signal,
  watchLimitMs = defaultWatchLimitMs,
}: NodeWatchOptions): Promise<void> {
  const csiNodes = new Map<string, CsiNode>();
  const labelled = new Set<string>();
  const ours = new Set<string>();
  const seen = { csiNodes: false, nodes: false };
  const tell = () => {
    if (!seen.csiNodes || !seen.nodes) return;
    expect(waitedFor({ csiNodes, labelled, ours }));
  };
  const follow = (options: Omit<FollowOptions, 'api' | 'log' | 'signal' | 'watchLimitMs'>) =>
    followList({ api, log, signal, watchLimitMs, ...options });
  await Promise.all([
    follow({
      path: '/apis/storage.k8s.io/v1/csinodes',
      clear: () => csiNodes.clear(),
      put: (object) => {
        const {
          metadata: { name },
          spec,
        } = readAnswer(csiNode, object, 'show a CSINode');
        const drivers = spec.drivers ?? [];
        const isOurs = drivers.some((one) => one.name === driverName);
        const isAnothers = !isOurs && drivers.some(({ topologyKeys }) => topologyKeys?.includes(topologyKey) === true);
        csiNodes.set(name, { isOurs, isAnothers });
      },
      remove: (object) => csiNodes.delete(nameOf(object)),
      changed: () => {
        seen.csiNodes = true;
        tell();
      },
    }),
    follow({
      path: '/api/v1/nodes',
      selector: topologyKey,
      asMetadata: true,
      clear: () => labelled.clear(),
      put: (object) => labelled.add(nameOf(object)),
      remove: (object) => labelled.delete(nameOf(object)),
      changed: () => {
        seen.nodes = true;
        tell();
      },
    }),
  ]);
}

export interface SeenNodes {
  readonly csiNodes: ReadonlyMap<string, CsiNode>;
  /** Nodes with the label of the topology key. */
  readonly labelled: ReadonlySet<string>;
  /** Nodes that had the driver: they are expected while their Node exists, even if other drivers are there. */
  readonly ours: Set<string>;
}

/** The nodes that have the driver, or whose driver is away for a moment. */
export function waitedFor({ csiNodes, labelled, ours }: SeenNodes): string[] {
  const names = new Set([...csiNodes].filter(([, { isOurs }]) => isOurs).map(([name]) => name));
  for (const name of ours) if (!labelled.has(name)) ours.delete(name);
  for (const name of names) ours.add(name);
  for (const name of labelled) if (ours.has(name) || csiNodes.get(name)?.isAnothers !== true) names.add(name);
  return [...names];
}

interface FollowOptions {
  readonly api: KubernetesApi;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly watchLimitMs: number;
  readonly path: string;
  readonly selector?: string;
  readonly asMetadata?: boolean;
  readonly clear: () => void;
  readonly put: (object: unknown) => void;
  readonly remove: (object: unknown) => void;
  readonly changed: () => void;
}

function nameOf(object: unknown): string {
  return readAnswer(node, object, 'show a node').metadata.name;
}

/** Lists, then watches; and starts again when a watch ends, which happens every few minutes. */
async function followList(options: FollowOptions): Promise<void> {
  const { log, path, signal } = options;
  while (!signal.aborted) {
    try {
      await watchFrom(options, await listAll(options));
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ path, reason: error instanceof Error ? error.message : 'unknown' }, 'cannot watch Kubernetes');
    }
    await delay(pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
  }
}

async function listAll({
  api,
  asMetadata = false,
  changed,
  clear,
  path,
  put,
  selector,
}: FollowOptions): Promise<string> {
  const items: unknown[] = [];
  let next = '';
  let version = '';
  do {
    const query = new URLSearchParams({ limit: String(pageSize), ...(next === '' ? {} : { continue: next }) });
    if (selector !== undefined) query.set('labelSelector', selector);
    const call = { path: `${path}?${query}`, what: `list ${path}`, ...(asMetadata && { accept: metadataList }) };
    const page = readAnswer(list, await api.call(call), call.what);
    items.push(...(page.items ?? []));
    next = page.metadata.continue ?? '';
    version = page.metadata.resourceVersion;
  } while (next !== '');
  clear();
  for (const item of items) put(item);
  changed();
  return version;
}

async function watchFrom(options: FollowOptions, resourceVersion: string): Promise<void> {
  const { api, asMetadata = false, changed, path, put, remove, selector, signal, watchLimitMs } = options;
  const query = new URLSearchParams({ watch: '1', resourceVersion, timeoutSeconds: String(watchSeconds) });
  if (selector !== undefined) query.set('labelSelector', selector);
  const call = { path: `${path}?${query}`, what: `watch ${path}`, ...(asMetadata && { accept: metadataEvents }) };
  // A proxy may keep the connection open and pass nothing on, not even its end.
  const limit = AbortSignal.timeout(watchLimitMs);
  for await (const line of api.watch(call, AbortSignal.any([signal, limit]))) {
    const { object, type } = readAnswer(event, line, call.what);
    if (type === 'ERROR') return;
    if (type === 'DELETED') remove(object);
    else put(object);
    changed();
  }
}
