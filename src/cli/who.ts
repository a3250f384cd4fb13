import { AdminClient } from '../admin/client.ts';
import type { Config } from '../config/config.ts';
import { volumeIdOf } from './look/volume-id.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { holderLines, incompleteHolders } from './output/tables/holders.ts';

/** `holdfast who VOLUME`: the processes, mounts and devices that keep a volume in use on this node. */
export async function whoCommand(
  config: Config,
  output: Output,
  { wanted, json }: { wanted: string; json: boolean },
): Promise<number> {
  const found = await new AdminClient(config.adminSocketPath).holders(await volumeIdOf(config, wanted));
  if (json) {
    output.line(toJson<'who'>(found));
    return exitCodes.ok;
  }
  for (const line of holderLines(found)) output.line(line);
  if (!found.isComplete) output.problem('WARNING', incompleteHolders);
  return exitCodes.ok;
}
