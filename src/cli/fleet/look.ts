import { AdminClient, AdminError } from '../../admin/client.ts';
import type { Config } from '../../config/config.ts';
import type { Look, Looked } from '../../fleet/node/look.ts';
import { NotFound } from '../../volume/errors.ts';
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
        return answer(only(pools.flatMap(volumesIn), volume), pools.flatMap(problemsOf));
      }
      case 'snapshots': {
        const pools = await lookAtPools(config, 'records');
        return answer(pools.flatMap(snapshotsIn), pools.flatMap(problemsOf));
      }
      case 'trash': {
        const { problems, volumes } = await new AdminClient(config.adminSocketPath).listTrash();
        return answer(only(volumes, volume), problems);
      }
      case 'who':
        return holders(config, volume ?? '');
      default:
        return undefined;
    }
  };
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
