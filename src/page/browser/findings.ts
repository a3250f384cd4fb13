import type { State } from '../messages.ts';
import { bytesText, claimOr, counted, nameText, numberOf, percentText, someOf, spanText } from './format.ts';
import { endsOf, titleOf, toldOnce } from './move-ends.ts';
import { fullness, spaceOf, trashBytes } from './space.ts';
import type { Tables } from './types.ts';

/** Something that is wrong, what to do about it, and where it is shown. */
export interface Finding {
  readonly severity: 'error' | 'warning';
  readonly title: string;
  readonly advice: string;
  readonly link?: { readonly view: string; readonly [key: string]: string } | undefined;
}

const nearlyFull = 0.9;
const nearlyFullMetadata = 0.8;
/** Findings of one sort; of more, one tells of all. */
const maxEach = 5;

const sick: Readonly<Record<string, string>> = {
  broken: 'cannot be used',
  quarantined: 'is in quarantine: its disk is sick',
  silent: 'does not answer: its disk may hang',
};

/** All that is wrong, the worst first. */
export function findingsOf(tables: Tables, state: State, nowMs: number, scope: 'fleet' | 'node'): Finding[] {
  const errors: Finding[] = [];
  const warnings: Finding[] = [];

  const away = [...tables.nodes.values()].filter((node) => node.state === 'away');
  if (scope === 'node' && away.length > 0) {
    errors.push({
      severity: 'error',
      title: 'The driver of this node does not run',
      advice:
        'Pods keep the volumes that they have; no volume can be made, mounted or deleted. Start it: holdfast serve.',
    });
  } else if (away.length > maxEach) {
    errors.push({
      severity: 'error',
      title: `${counted(away.length, 'node')} are away: ${someOf(away.map(({ node }) => node))}`,
      advice:
        'Calls for their volumes fail until they are back. Look first at what they share: a rack, a network, an upgrade.',
      link: { view: 'nodes', state: 'away' },
    });
  } else {
    for (const { node, since, volumes } of away) {
      errors.push({
        severity: 'error',
        title: `Node ${nameText(node)} has been away for ${spanText(nowMs - Date.parse(since))}`,
        advice: `Calls for its ${volumes === 0 ? 'volumes' : counted(volumes, 'volume')} fail until it is back. If it never comes back: kubectl delete node ${nameText(node)}, then forget it.`,
        link: { view: 'nodes', q: node },
      });
    }
  }

  const pools = [...tables.pools.values()];
  const ill = pools.filter(({ state: is }) => Object.hasOwn(sick, is));
  if (ill.length > maxEach) {
    errors.push({
      severity: 'error',
      title: `${counted(ill.length, 'pool')} cannot be used: ${someOf(ill.map(({ name, node }) => `${name} of ${node}`))}`,
      advice: 'The list of pools says for each what to do.',
      link: { view: 'pools', state: 'sick' },
    });
  } else {
    for (const { advice, name, node, state: is } of ill) {
      errors.push({
        severity: 'error',
        title: `Pool ${nameText(name)} of node ${nameText(node)} ${sick[is]}`,
        advice: sentence(nameText(advice ?? 'look at the log of its driver')),
        link: { view: 'pools', q: node },
      });
    }
  }

  const trashed = trashBytes(tables.trash.values());
  const full = [...tables.pools].flatMap(([key, pool]) => {
    const space = spaceOf(pool, trashed.get(key) ?? 0);
    return space !== undefined && fullness(space) >= nearlyFull ? [{ pool, space }] : [];
  });
  if (full.length > maxEach) {
    warnings.push({
      severity: 'warning',
      title: `${counted(full.length, 'pool')} are nearly full: ${someOf(full.map(({ pool }) => `${pool.name} of ${pool.node}`))}`,
      advice: 'Delete volumes or snapshots there, or give them a larger disk.',
      link: { view: 'pools', sort: 'full' },
    });
  } else {
    for (const { pool, space } of full) {
      const inTrash =
        space.trash > 0 ? `; ${bytesText(space.trash)} are in the trash, and go when they are needed` : '';
      warnings.push({
        severity: 'warning',
        title: `Pool ${nameText(pool.name)} of node ${nameText(pool.node)} is ${percentText(fullness(space), 1)} full`,
        advice: `${bytesText(space.free)} are free for new volumes${inTrash}. Delete volumes or snapshots there, or give it a larger disk.`,
        link: { view: 'pools', q: pool.node },
      });
    }
  }
  for (const { disk, name, node } of pools) {
    const { totalBytes, usedBytes } = disk?.metadata ?? {};
    const part = numberOf(usedBytes) / Math.max(1, numberOf(totalBytes));
    if (part < nearlyFullMetadata) continue;
    warnings.push({
      severity: 'warning',
      title: `The metadata of thin pool ${nameText(name)} of node ${nameText(node)} is ${percentText(part, 1)} full`,
      advice: 'A thin pool whose metadata is full fails its writes. Make it larger: lvextend --poolmetadatasize.',
      link: { view: 'pools', q: node },
    });
  }
  for (const { damaged = [], name, node } of pools) {
    if (damaged.length === 0) continue;
    warnings.push({
      severity: 'warning',
      title: `${counted(damaged.length, 'record')} of pool ${nameText(name)} of node ${nameText(node)} cannot be read`,
      advice: `${nameText(damaged[0]?.reason ?? '')} The data is left alone; docs/recovery.md says how to get it back.`,
      link: { view: 'pools', q: node },
    });
  }

  const abnormal = [...tables.volumes.values()].filter(({ condition }) => condition !== undefined);
  if (abnormal.length > maxEach) {
    errors.push({
      severity: 'error',
      title: `Something is wrong with ${counted(abnormal.length, 'volume')}: ${someOf(abnormal.map(claimOr))}`,
      advice: 'The list of volumes says for each what it is.',
      link: { view: 'volumes', state: 'abnormal' },
    });
  } else {
    for (const volume of abnormal) {
      errors.push({
        severity: 'error',
        title: `Volume ${claimOr(volume)} on node ${nameText(volume.node)} is not well`,
        advice: sentence(nameText(volume.condition ?? '')),
        link: { view: 'volumes', q: volume.id },
      });
    }
  }

  const failed = toldOnce(tables.moves).filter(([, { state: is }]) => is === 'failed');
  for (const [, move] of failed.slice(0, maxEach)) {
    const { from, to } = endsOf(move);
    warnings.push({
      severity: 'warning',
      title: `The move of ${titleOf(move, tables)} from ${nameText(from)} to ${nameText(to)} has failed`,
      advice: sentence(nameText(move.reason ?? 'the log of its driver says why')),
      link: { view: 'moves', q: move.id },
    });
  }

  const silent = state.missing.filter(({ reason }) => reason !== 'away');
  const says = [...silent, ...state.problems].map(({ message, node }) => ({ message, node }));
  if (says.length > maxEach) {
    warnings.push({
      severity: 'warning',
      title: `${counted(says.length, 'answer')} of nodes are not whole: ${someOf([...new Set(says.map(({ node }) => node))])}`,
      advice: `The first: ${nameText(says[0]?.message ?? '')}.`,
      link: { view: 'nodes' },
    });
  } else {
    for (const { message, node } of says) {
      const title =
        node === '' || scope === 'node'
          ? 'The lists may lack something'
          : `The lists may lack something of node ${nameText(node)}`;
      warnings.push({
        severity: 'warning',
        title,
        advice: sentence(nameText(message)),
        link: { view: 'nodes', q: node },
      });
    }
  }
  return [...errors, ...warnings];
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
