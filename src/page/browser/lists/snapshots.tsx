import { choicesOf } from '../filter.ts';
import { claimOr, numberOf } from '../format.ts';
import { Name } from '../parts.tsx';
import { linkTo } from '../route.ts';
import type { Snapshot } from '../types.ts';
import { useMade } from '../use-store.ts';
import { ageColumn, bytesColumn, textColumn } from './columns.tsx';
import { List, type ViewProps } from './list.tsx';
import { nodeColumn } from './nodes.tsx';
import type { Column } from './table.tsx';

interface Row {
  readonly key: string;
  readonly snapshot: Snapshot;
  /** The name of its volume, or the id of one that is gone. */
  readonly of: string;
  readonly isOrphan: boolean;
}

export function Snapshots({ route, store }: ViewProps) {
  const { snapshots, volumes } = store.tables;
  const all = useMade(store, ['snapshots', 'volumes'], () =>
    [...snapshots].map(([key, snapshot]): Row => {
      const source = volumes.get(`${snapshot.node}/${snapshot.sourceId}`);
      const of = source === undefined ? snapshot.sourceId : claimOr(source);
      return { key, snapshot, of, isOrphan: source === undefined };
    }),
  );
  const columns: Column<Row>[] = [
    textColumn({ id: 'name', title: 'Snapshot', width: 'minmax(8rem, 2fr)' }, ({ snapshot }) => snapshot.name),
    {
      ...{ id: 'of', title: 'Of volume', width: 'minmax(8rem, 2fr)' },
      by: ({ of }) => of,
      cell: (row) => <Source {...row} />,
    },
    nodeColumn(700, ({ snapshot }) => snapshot.node),
    textColumn({ id: 'pool', title: 'Pool', width: 'minmax(5rem, 1fr)', from: 860 }, ({ snapshot }) => snapshot.pool),
    bytesColumn({ id: 'size', title: 'Size', from: 480 }, ({ snapshot }) => numberOf(snapshot.sizeBytes)),
    {
      ...{ id: 'group', title: 'Group', width: 'minmax(5rem, 1fr)', from: 1160 },
      by: ({ snapshot }) => snapshot.groupId ?? '',
      cell: ({ snapshot: { groupId } }) => (groupId === undefined ? '–' : <Name mono>{groupId}</Name>),
    },
    ageColumn({ id: 'age', title: 'Age' }, store, ({ snapshot }) => snapshot.createdAt),
  ];
  const ofNodes = {
    ...{ key: 'node', title: 'Node', values: choicesOf(all.map(({ snapshot }) => snapshot.node)) },
    fits: ({ snapshot }: Row, value: string) => snapshot.node === value,
  };
  return (
    <List
      {...{ label: 'Snapshots', sort: 'age', route, all, columns }}
      keyOf={({ key }) => key}
      textsOf={({ of, snapshot }) => [
        ...[snapshot.id, snapshot.name, of, snapshot.sourceId, snapshot.groupId, snapshot.node],
      ]}
      choices={store.hello?.scope === 'node' ? [] : [ofNodes]}
      empty="There are no snapshots."
      unfit="No snapshot fits the search."
    />
  );
}

function Source({ isOrphan, of, snapshot: { node, sourceId } }: Row) {
  if (isOrphan) return <span class="unknown">{of} (gone)</span>;
  return (
    <a tabIndex={-1} {...linkTo({ view: 'volumes', q: sourceId, open: `${node}/${sourceId}` })}>
      <Name>{of}</Name>
    </a>
  );
}
