import type { Config } from '../config/config.ts';
import { formatBytes } from '../volume/size.ts';
import { isUsable } from './home.ts';
import type { PoolSight } from './inventory.ts';
import { lookAtPools } from './look.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { tableLines } from './table.ts';

/** `holdfast pools`: what the pools are, where, and how full. */
export async function poolsCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const pools = await lookAtPools(config, 'capacity');
  if (options.json) {
    output.line(toJson({ pools: pools.map((pool) => forPrograms(pool, config.defaultPool)) }));
  } else {
    for (const line of tableLines(
      columns,
      pools.map((pool) => forPeople(pool, config.defaultPool)),
    ))
      output.line(line);
    for (const { config: pool, home } of pools) {
      if (home.advice !== undefined) output.problem(`pool ${pool.name}: ${home.advice}`);
    }
  }
  return pools.every(({ home }) => isUsable(home.state)) ? exitCodes.ok : exitCodes.failed;
}

const columns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'STATE' },
  { title: 'VOLUMES', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'PROMISED', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'SNAPSHOTS', align: 'right' },
  { title: 'AVAILABLE', align: 'right' },
  { title: 'FREE', align: 'right' },
  { title: 'DRIVER' },
  { title: 'HOME' },
] as const;

function forPeople({ config, home, contents }: PoolSight, defaultPool: string): string[] {
  const { totalBytes, promisedBytes, usedBytes, availableBytes } = contents?.capacity ?? {};
  const { freeBytes, snapshotBytes } = contents?.disk ?? {};
  const sizes = [totalBytes, promisedBytes, usedBytes, snapshotBytes, availableBytes, freeBytes];
  return [
    config.name === defaultPool ? `${config.name} (default)` : config.name,
    config.kind,
    home.state,
    contents === undefined ? '-' : String(contents.records.length),
    ...sizes.map((bytes) => (bytes === undefined ? '-' : formatBytes(bytes))),
    home.holders.map(({ pid }) => `pid ${pid}`).join(', ') || '-',
    `${home.type} ${home.path}`,
  ];
}

function forPrograms({ config, home, contents }: PoolSight, defaultPool: string): object {
  return {
    name: config.name,
    kind: config.kind,
    default: config.name === defaultPool,
    home: { type: home.type, path: home.path },
    state: home.state,
    advice: home.advice,
    drivers: home.holders,
    volumes: contents?.records.length,
    damaged: contents?.damaged,
    capacity: contents?.capacity,
    disk: contents?.disk,
  };
}
