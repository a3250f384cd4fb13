import { AdminClient, AdminError } from '../../admin/client.ts';
import type { Config } from '../../config/config.ts';
import type { Look, Looked } from '../../fleet/node/look.ts';
import { NotFound } from '../../volume/errors.ts';
import { seenDisks } from '../disks.ts';
import { driverConditions } from '../look/driver-word.ts';
import { isMeant, type Known } from '../look/find-volume.ts';
import { problemsOf } from '../look/inventory.ts';
import { lookAtPools } from '../look/look.ts';
import { volumeIdOf } from '../look/volume-id.ts';
import { poolOf } from '../pools.ts';
import { snapshotsIn } from '../snapshots.ts';
import { volumesIn } from '../volumes.ts';

/** This node's answers to a request for the fleet's view: the items that the commands of the same names print here. */
export function lookFor(config: Config): Look {
  return async ({ list, volume }) => {
    switch (list) {
      case 'pools':
        return answer((await lookAtPools(config, 'capacity')).map((pool) => poolOf(pool, config)));
      case 'volumes': {
        const pools = await lookAtPools(config, 'attachments');
        const conditions = await driverConditions(config);
        const volumes = pools.flatMap((pool) => volumesIn(pool, conditions));
        return answer(only(volumes, volume), pools.flatMap(problemsOf));
      }
      case 'snapshots': {
        const pools = await lookAtPools(config, 'records');
        return answer(snapshotsIn(pools), pools.flatMap(problemsOf));
      }
      case 'trash': {
        const { problems, volumes } = await new AdminClient(config.adminSocketPath).listTrash();
        return answer(only(volumes, volume), problems);
      }
      case 'moves': {
        const { moves } = await new AdminClient(config.adminSocketPath).listMoves();
        return answer(moves);
      }
      case 'disks': {
        const { disks, missing } = await seenDisks();
        return answer(
          disks,
          missing.map((name) => `disk ${name} cannot be looked at: it does not answer`),
        );
      }
      case 'all':
        return lookAtAll(config);
      case 'who':
        return holders(config, volume ?? '');
      default:
        return undefined;
    }
  };
}

/** Pools, volumes, snapshots, trash and moves by one look at the disks: each item in an object, by its list. */
async function lookAtAll(config: Config): Promise<Looked> {
  const driver = new AdminClient(config.adminSocketPath);
  const [pools, conditions, trash, moves] = await Promise.all([
    lookAtPools(config, 'all'),
    driverConditions(config),
    driver.listTrash().catch((error: unknown) => {
      // Without a driver there is still all else.
      if (!(error instanceof AdminError)) throw error;
      return { volumes: [], problems: [`the trash is not shown: ${error.message}`] };
    }),
    driver.listMoves().catch((error: unknown) => {
      if (!(error instanceof AdminError)) throw error;
      return { moves: [] };
    }),
  ]);
  const items: readonly Readonly<Record<string, object>>[] = [
    ...pools.map((pool) => ({ pools: poolOf(pool, config) })),
    ...pools.flatMap((pool) => volumesIn(pool, conditions)).map((volumes) => ({ volumes })),
    ...snapshotsIn(pools).map((snapshots) => ({ snapshots })),
    ...trash.volumes.map((volume) => ({ trash: volume })),
    ...moves.moves.map((move) => ({ moves: move })),
  ];
  return answer(items, [...new Set([...pools.flatMap(problemsOf), ...trash.problems])]);
}

function answer(items: readonly object[], problems: readonly string[] = []): Looked {
  const text = (item: object) =>
    JSON.stringify(item, (_key, field) => (typeof field === 'bigint' ? field.toString() : field));
  return { items: items.map(text), problems };
}

function only<Volume extends Known>(volumes: readonly Volume[], wanted: string | undefined): readonly Volume[] {
  return wanted === undefined ? volumes : volumes.filter((volume) => isMeant(volume, wanted));
}

/** A volume that is on another node has none here. */
async function holders(config: Config, wanted: string): Promise<Looked> {
  try {
    return answer([await new AdminClient(config.adminSocketPath).holders(await volumeIdOf(config, wanted))]);
  } catch (error) {
    const code = error instanceof AdminError || error instanceof NotFound ? error.code : undefined;
    if (code === 'NOT_FOUND') return answer([]);
    throw error;
  }
}
