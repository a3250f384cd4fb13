import { lackFor } from '../actions.tsx';
import { claimOr, numberOf, spanText } from '../format.ts';
import type { Trashed } from '../types.ts';
import { useMade } from '../use-store.ts';
import { ageColumn, agoText, bytesColumn, textColumn } from './columns.tsx';
import { type Acting, List } from './list.tsx';
import { nodeColumn } from './nodes.tsx';
import type { Column } from './table.tsx';

interface Row {
  readonly key: string;
  readonly volume: Trashed;
}

export function Trash({ act, route, store }: Acting) {
  const { nodes, trash } = store.tables;
  const all = useMade(store, ['trash'], () => [...trash].map(([key, volume]): Row => ({ key, volume })));
  const [noRestore, noPurge] = [lackFor(store, 'restore'), lackFor(store, 'purge')];
  const isAway = ({ volume }: Row) => nodes.get(volume.node)?.state === 'away' && store.hello?.scope === 'fleet';
  const buttons: Column<Row> = {
    ...{ id: 'act', title: '', width: '12.5rem' },
    cell: (row) => (
      <span class="acts">
        {noRestore === undefined ? (
          <button
            type="button"
            class="small"
            disabled={isAway(row)}
            onClick={() => act({ change: 'restore', volume: row.volume })}
          >
            Bring back …
          </button>
        ) : null}
        {noPurge === undefined ? (
          <button
            type="button"
            class="small danger"
            disabled={isAway(row)}
            onClick={() => act({ change: 'purge', volume: row.volume })}
          >
            Purge …
          </button>
        ) : null}
      </span>
    ),
  };
  const columns: Column<Row>[] = [
    textColumn({ id: 'claim', title: 'Volume', width: 'minmax(7rem, 2fr)' }, ({ volume }) => claimOr(volume)),
    nodeColumn(740, ({ volume }) => volume.node),
    textColumn({ id: 'pool', title: 'Pool', width: 'minmax(5rem, 1fr)', from: 900 }, ({ volume }) => volume.pool),
    bytesColumn({ id: 'size', title: 'Size', from: 1000 }, ({ volume }) => numberOf(volume.sizeBytes)),
    bytesColumn({ id: 'used', title: 'Frees', from: 560 }, ({ volume }) => numberOf(volume.usedBytes)),
    ageColumn(
      { id: 'deleted', title: 'Deleted', width: '5rem', from: 820 },
      store,
      ({ volume }) => volume.deletedAt,
      agoText,
    ),
    {
      ...{ id: 'until', title: 'Kept for', width: '5.5rem', isNumber: true },
      by: ({ volume }) => volume.purgeAt,
      cell: ({ volume: { purgeAt } }) => (
        <time dateTime={purgeAt} title={`until ${purgeAt}`}>
          {spanText(Date.parse(purgeAt) - store.now())}
        </time>
      ),
    },
    ...(noRestore === undefined || noPurge === undefined ? [buttons] : []),
  ];
  const lack = noRestore ?? noPurge;
  return (
    <List
      {...{ label: 'Trash', sort: 'until', route, all, columns }}
      keyOf={({ key }) => key}
      isDim={isAway}
      textsOf={({ volume }) => [volume.id, volume.name, claimOr(volume), volume.node, volume.pool]}
      empty="The trash is empty."
      unfit="Nothing in the trash fits the search."
    >
      {lack === undefined ? null : <p class="lack">{lack}</p>}
    </List>
  );
}
