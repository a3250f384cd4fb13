import { AdminClient } from '../admin/client.ts';
import type { HolderList } from '../admin/protocol.ts';
import type { Config } from '../config/config.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { tableLines } from './table.ts';
import { printable } from './text.ts';
import { volumeIdOf } from './volume-id.ts';

const columns = [{ title: 'KIND' }, { title: 'PID', align: 'right' }, { title: 'COMMAND' }, { title: 'PATH' }] as const;

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
  if (found.devices.length > 0) output.line(`${found.id} is attached as ${found.devices.join(', ')}`);
  if (found.mountedFrom.length > 0) output.line(`${found.id} is mounted from ${found.mountedFrom.join(', ')}`);
  if (found.holders.length > 0) for (const line of tableLines(columns, found.holders.map(rowOf))) output.line(line);
  else if (found.isComplete) output.line(`Nobody holds ${found.id}.`);
  if (!found.isComplete) output.problem('WARNING', 'there was no time to look everywhere: there may be more');
  return exitCodes.ok;
}

/** A mount of another mount namespace is named by a process in it. */
function rowOf(holder: HolderList['holders'][number]): string[] {
  const path = printable(holder.path);
  if (holder.kind === 'process') return ['process', String(holder.pid), printable(holder.command), path];
  const { command, pid } = (holder.kind === 'mount' ? holder.namespaceOf : undefined) ?? {};
  return [holder.kind, pid === undefined ? '-' : String(pid), command === undefined ? '-' : printable(command), path];
}
