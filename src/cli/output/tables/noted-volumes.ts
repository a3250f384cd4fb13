import type { NotedSight } from '../../../pool/on-node/look.ts';
import type { Output } from '../output.ts';
import { printTable } from '../table.ts';
import { printable } from '../text.ts';

const columns = [
  { title: 'VOLUME', flexible: true },
  { title: 'KIND' },
  { title: 'SERVER', flexible: true },
  { title: 'CONTENT', extra: 1 },
  { title: 'STATE' },
] as const;

/** The volumes that this node uses and that every node can reach; one that is wanted with its paths. */
export function printNoted(output: Output, volumes: readonly NotedSight[], wanted: string | undefined): void {
  if (wanted === undefined) {
    printTable(output, columns, { rows: volumes.map(rowOf), none: 'This node uses no volumes.' });
    return;
  }
  for (const { content, handle, kind, paths, server } of volumes) {
    const fact = (title: string, text: string) => output.line(`${title.padEnd(9)}${printable(text)}`);
    fact('volume', handle);
    fact('kind', kind);
    fact('server', server ?? '-');
    fact('content', contentOf(content));
    for (const { isMounted, path } of paths) fact('path', isMounted ? path : `${path} (not mounted)`);
  }
}

function rowOf({ content, handle, kind, paths, server }: NotedSight): string[] {
  return [handle, kind, server ?? '-', contentOf(content), stateOf(paths)].map(printable);
}

function contentOf(content: NotedSight['content']): string {
  return 'fsType' in content ? content.fsType : content.type;
}

function stateOf(paths: NotedSight['paths']): string {
  const mounted = paths.filter(({ isMounted }) => isMounted).length;
  return mounted === 0 ? 'not mounted' : `mounted at ${mounted} ${mounted === 1 ? 'path' : 'paths'}`;
}
