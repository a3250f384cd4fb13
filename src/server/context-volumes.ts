import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { hasNode } from '../config/side.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { openNodeKinds } from '../pool/kinds.ts';
import type { PoolLog } from '../pool/log.ts';
import { ContextVolumes } from '../pool/on-node/context-volumes.ts';
import { notesOfVolumes } from '../pool/on-node/look.ts';
import { Servers } from '../pool/on-node/servers.ts';

/** Servers that can use all their worker threads at the same time. */
const busyServers = 17;

/** The number of servers that need worker threads in this process. */
export function busyServersOf({ side }: Pick<Config, 'side'>): number {
  return hasNode(side) ? busyServers : 0;
}

export interface OpenContextVolumes {
  readonly volumes: ContextVolumes;
  readonly servers: Servers;
}

/** Opens what this node knows of such volumes. */
export async function openContextVolumes(
  config: Pick<Config, 'dataDirectory' | 'diskLinks' | 'driverName' | 'kubeletDirectory' | 'nodeId' | 'programs'>,
  { log, queue, threadsEach }: { readonly log: PoolLog; readonly queue: DiskQueue; readonly threadsEach: number },
): Promise<OpenContextVolumes> {
  const { dataDirectory, diskLinks, driverName, kubeletDirectory, nodeId: nodeName, programs } = config;
  const servers = new Servers({ dataDirectory, log, threadsEach, threads: busyServers * threadsEach });
  const directory = notesOfVolumes(dataDirectory);
  const mountsDirectory = join(kubeletDirectory, 'plugins', driverName, 'programs');
  const kinds = await openNodeKinds({ programs, nodeName, dataDirectory, mountsDirectory, queue, log, diskLinks });
  const volumes = await ContextVolumes.open({ kinds, servers, directory, queue, log });
  void volumes.tidyUp();
  return { volumes, servers };
}
