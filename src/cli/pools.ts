import type { Config } from '../config/config.ts';
import type { Traits } from '../pool/pool.ts';
import { isUsable } from '../pool/sight.ts';
import { formatBytes } from '../volume/size.ts';
import type { SeenPool } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import type { Shape } from './shapes.ts';
import { tableLines } from './table.ts';

/** `holdfast pools`: what the pools are, where, and how full. */
export async function poolsCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const pools = await lookAtPools(config, 'capacity');
  if (options.json) {
    output.line(toJson<'pools'>({ pools: pools.map((pool) => forPrograms(pool, config.defaultPool)) }));
  } else {
    for (const line of tableLines(
      columns,
      pools.map((pool) => forPeople(pool, config.defaultPool)),
    ))
      output.line(line);
    for (const { config: pool, location } of pools) {
      if (location.advice === undefined) continue;
      output.problem(isUsable(location.state) ? 'WARNING' : 'UNAVAILABLE', `pool ${pool.name}: ${location.advice}`);
    }
  }
  return pools.every(({ location }) => isUsable(location.state)) ? exitCodes.ok : exitCodes.failed;
}

const columns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'CLONES' },
  { title: 'STATE' },
  { title: 'VOLUMES', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'PROVISIONED', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'SNAPSHOTS', align: 'right' },
  { title: 'AVAILABLE', align: 'right' },
  { title: 'FREE', align: 'right' },
  { title: 'DRIVER' },
  { title: 'LOCATION' },
] as const;

function forPeople({ config, location, contents }: SeenPool, defaultPool: string): string[] {
  const { totalBytes, provisionedBytes, usedBytes, availableBytes } = contents?.capacity ?? {};
  const { freeBytes, snapshotBytes } = contents?.disk ?? {};
  const sizes = [totalBytes, provisionedBytes, usedBytes, snapshotBytes, availableBytes, freeBytes];
  return [
    config.name === defaultPool ? `${config.name} (default)` : config.name,
    config.kind,
    contents?.traits.snapshots ?? '-',
    location.state,
    contents === undefined ? '-' : String(contents.records.length),
    ...sizes.map((bytes) => (bytes === undefined ? '-' : formatBytes(bytes))),
    location.holders.map(({ pid }) => `pid ${pid}`).join(', ') || '-',
    `${location.type} ${location.path}`,
  ];
}

function forPrograms({ config, location, contents }: SeenPool, defaultPool: string): Shape<'pools'>['pools'][number] {
  return {
    name: config.name,
    kind: config.kind,
    default: config.name === defaultPool,
    labels: config.labels,
    state: location.state,
    advice: location.advice,
    location: { type: location.type, path: location.path },
    drivers: location.holders,
    traits: contents === undefined ? undefined : shownTraits(contents.traits),
    volumes: contents?.records.length,
    damaged: contents?.damaged,
    capacity: contents?.capacity,
    disk: contents?.disk,
  };
}

/** What is of use to others: some traits are between a kind and the services. */
function shownTraits(traits: Partial<Traits>): Shape<'pools'>['pools'][number]['traits'] {
  const { block, changedBlocks, directories, expansion, filesystems, provisioning, snapshots } = traits;
  return { block, directories, filesystems, provisioning, snapshots, changedBlocks, expansion };
}
