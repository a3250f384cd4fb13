import { poolChip, sickStates } from '../chips.tsx';
import { choicesOf } from '../filter.ts';
import { Bar, History } from '../parts.tsx';
import { filterBy } from '../route.ts';
import { fullness } from '../space.ts';
import { type PoolRow, usePools } from '../use-store.ts';
import { bytesColumn, textColumn } from './columns.tsx';
import { List, type ViewProps } from './list.tsx';
import type { Column } from './table.tsx';

export const poolColumn = {
  node: textColumn<PoolRow>({ id: 'node', title: 'Node' }, ({ pool }) => pool.node),
  pool: textColumn<PoolRow>({ id: 'pool', title: 'Pool', width: 'minmax(5rem, 1fr)' }, ({ pool }) => pool.name),
  free: bytesColumn<PoolRow>({ id: 'free', title: 'Free', width: '6rem' }, ({ space }) => space?.free),
  health: {
    ...{ id: 'health', title: 'Health', width: '7rem', from: 500 },
    by: ({ pool }) => pool.state,
    cell: ({ pool }) => poolChip(pool),
  },
  space: {
    ...{ id: 'full', title: 'Space', width: 'minmax(6rem, 2fr)' },
    // Those that are not known come first, if the fullest do.
    by: ({ space }) => (space === undefined ? 2 : fullness(space)),
    cell: ({ space }) => <Bar space={space} />,
  },
} satisfies Record<string, Column<PoolRow>>;

export function Pools({ route, store }: ViewProps) {
  const all = usePools(store);
  const columns: Column<PoolRow>[] = [
    poolColumn.node,
    poolColumn.pool,
    textColumn({ id: 'kind', title: 'Kind', width: '5rem', from: 620 }, ({ pool }) => pool.kind),
    poolColumn.health,
    poolColumn.space,
    poolColumn.free,
    bytesColumn({ id: 'size', title: 'Size', width: '6rem', from: 900 }, ({ space }) => space?.disk),
    {
      ...{ id: 'history', title: 'Since opened', width: '9rem', from: 1080 },
      cell: ({ key }) => <History moments={store.history.get(key) ?? []} />,
    },
    textColumn(
      { id: 'where', title: 'Where', width: 'minmax(8rem, 1.6fr)', from: 1240 },
      ({ pool: { location } }) => `${location.type} ${location.path}`,
    ),
  ];
  return (
    <List
      {...{ label: 'Pools', sort: 'node', route, all, columns }}
      keyOf={({ key }) => key}
      onOpen={({ key }) => filterBy({ open: key })}
      openKey={route['open']}
      textsOf={({ pool }) => [
        ...[pool.name, pool.node, pool.kind, pool.location.path, pool.section],
        ...Object.entries(pool.labels).flat(),
      ]}
      choices={[
        {
          ...{ key: 'kind', title: 'Kind', values: choicesOf(all.map(({ pool }) => pool.kind)) },
          fits: ({ pool }, value) => pool.kind === value,
        },
        {
          ...{ key: 'state', title: 'Health', values: ['sick', ...choicesOf(all.map(({ pool }) => pool.state))] },
          fits: ({ pool }, value) => pool.state === value || (value === 'sick' && sickStates.includes(pool.state)),
        },
      ]}
      empty="No pool is known yet."
      unfit="No pool fits the search."
    />
  );
}
