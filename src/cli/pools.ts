import type { Config } from '../config/config.ts';
import type { Traits } from '../pool/pool.ts';
import { isUsable } from '../pool/sight.ts';
import type { SeenPool } from './look/inventory.ts';
import { lookAtPools } from './look/look.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printTable } from './output/table.ts';
import { type PoolItem, poolColumns, poolRow } from './output/tables/pools.ts';

/** `holdfast pools`: what the pools are, where, and how full. */
export async function poolsCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const pools = await lookAtPools(config, 'capacity');
  if (options.json) {
    output.line(toJson<'pools'>({ pools: pools.map((pool) => poolOf(pool, config)) }));
  } else {
    printTable(output, poolColumns, { rows: pools.map((pool) => poolRow(poolOf(pool, config))) });
    for (const { config: pool, location } of pools) {
      if (location.advice === undefined) continue;
      output.problem(isUsable(location.state) ? 'WARNING' : 'UNAVAILABLE', `pool ${pool.name}: ${location.advice}`);
    }
  }
  return pools.every(({ location }) => isUsable(location.state)) ? exitCodes.ok : exitCodes.failed;
}

/** A pool that was looked at with its capacity. */
export function poolOf({ config, location, contents }: SeenPool, { defaultPool }: Config): PoolItem {
  return {
    name: config.name,
    kind: config.kind,
    default: (config.section ?? config.name) === defaultPool,
    ...(config.section !== undefined && { section: config.section }),
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

/** The traits that are of use to others: some are between a kind and the services. */
function shownTraits(traits: Partial<Traits>): PoolItem['traits'] {
  const { block, changedBlocks, directories, expansion, filesystems, provisioning, snapshots } = traits;
  return { block, directories, filesystems, provisioning, snapshots, changedBlocks, expansion };
}
