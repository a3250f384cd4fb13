import type { HolderList } from '../../../admin/protocol.ts';
import { tableLines } from '../table.ts';
import { printable } from '../text.ts';

const columns = [{ title: 'KIND' }, { title: 'PID', align: 'right' }, { title: 'COMMAND' }, { title: 'PATH' }] as const;

/** The holders of a volume, and where they hold it. */
export function holderLines({ devices, holders, id, isComplete, mountedFrom }: HolderList): string[] {
  const none = isComplete ? [`Nothing holds ${id}.`] : [];
  return [
    ...(devices.length > 0 ? [`${id} is attached as ${devices.join(', ')}`] : []),
    ...(mountedFrom.length > 0 ? [`${id} is mounted from ${mountedFrom.join(', ')}`] : []),
    ...(holders.length > 0 ? tableLines(columns, holders.map(rowOf)) : none),
  ];
}

export const incompleteHolders = 'there was no time to look everywhere: there may be more';

/** A mount of another mount namespace is named by a process in it. */
function rowOf(holder: HolderList['holders'][number]): string[] {
  const name = holder.kind === 'device' && holder.name !== undefined ? ` (${holder.name})` : '';
  const path = printable(`${holder.path}${name}`);
  if (holder.kind === 'process') return ['process', String(holder.pid), printable(holder.command), path];
  const { command, pid } = (holder.kind === 'mount' ? holder.namespaceOf : undefined) ?? {};
  return [holder.kind, pid === undefined ? '-' : String(pid), command === undefined ? '-' : printable(command), path];
}
