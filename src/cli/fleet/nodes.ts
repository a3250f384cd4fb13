import { toTheSecond } from '../../fleet/routing/since.ts';
import type { NodeSight } from '../../fleet/routing/view.ts';
import type { ViewedFleet } from '../../fleet/view/start.ts';
import { age } from '../output/text.ts';
import type { NodeItem } from './shapes.ts';

export const nodeColumns = [
  { title: 'NODE' },
  { title: 'STATE' },
  { title: 'SINCE', align: 'right' },
  { title: 'VERSION', extra: 2 },
  { title: 'VOLUMES', align: 'right' },
  { title: 'SNAPSHOTS', align: 'right', extra: 1 },
  { title: 'POOLS', flexible: true },
] as const;

const maxPools = 100;
const longestText = 300;

type Nodes = Pick<ViewedFleet, 'sessions' | 'state'>;

/** All nodes with the driver, and the last report of each. */
export function nodeItems(fleet: Nodes): NodeItem[] {
  return fleet.state.nodes.map((sight) => nodeItem(fleet, sight));
}

export function nodeItem({ sessions, state }: Nodes, { hasTold, isLinked, name, sinceMs }: NodeSight): NodeItem {
  const told = state.has(name);
  let [volumes, snapshots] = [0, 0];
  for (const { kind } of told?.entries.values() ?? []) {
    if (kind === 'VOLUME') volumes++;
    if (kind === 'SNAPSHOT') snapshots++;
  }
  const version = sessions.find(name)?.driverVersion;
  return {
    node: name,
    state: !isLinked ? 'away' : hasTold ? 'linked' : 'telling',
    since: toTheSecond(sinceMs),
    ...(version === undefined ? {} : { version }),
    volumes,
    snapshots,
    pools: (told?.pools ?? []).slice(0, maxPools).map((pool) => ({
      name: pool.name.slice(0, longestText),
      kind: pool.kind.slice(0, longestText),
      state: pool.state.slice(0, longestText),
      ...(pool.reason === '' ? {} : { reason: pool.reason.slice(0, longestText) }),
    })),
  };
}

export function nodeRow({ node, pools, since, snapshots, state, version, volumes }: NodeItem, now: Date): string[] {
  const shown = pools.map((pool) => (pool.state === 'open' ? pool.name : `${pool.name} (${pool.state})`));
  const told = [version ?? '-', String(volumes), String(snapshots)];
  return [node, state, age(since, now), ...told, shown.join(', ') || '-'];
}
