import { lackFor } from '../actions.tsx';
import { nodeChip } from '../chips.tsx';
import { nameText, spanText } from '../format.ts';
import { Bar, Chip, Name } from '../parts.tsx';
import { linkTo } from '../route.ts';
import { fullness, sumOf } from '../space.ts';
import type { Node } from '../types.ts';
import { useMade, usePools } from '../use-store.ts';
import { countColumn, textColumn } from './columns.tsx';
import { type Acting, List } from './list.tsx';
import type { Column } from './table.tsx';

/** The node of something, with a link to it in the list of nodes. */
export function nodeColumn<Row>(from: number, nodeOf: (row: Row) => string): Column<Row> {
  return {
    ...textColumn({ id: 'node', title: 'Node', from }, nodeOf),
    cell: (row) => (
      <a {...linkTo({ view: 'nodes', q: nodeOf(row) })} tabIndex={-1}>
        <Name>{nodeOf(row)}</Name>
      </a>
    ),
  };
}

export function Nodes({ act, route, store }: Acting) {
  const { nodes } = store.tables;
  const all = useMade(store, ['nodes'], () => [...nodes.values()]);
  const mayForget = lackFor(store, 'forget') === undefined;
  const pools = usePools(store);
  const spaces = useMade(store, ['pools', 'trash'], () => {
    const byNode = Map.groupBy(pools, ({ pool }) => pool.node);
    return new Map([...byNode].map(([node, rows]) => [node, sumOf(rows.flatMap(({ space }) => space ?? []))]));
  });
  const columns: Column<Node>[] = [
    textColumn({ id: 'node', title: 'Node', width: 'minmax(8rem, 2fr)' }, ({ node }) => node),
    { id: 'state', title: 'State', width: '6rem', by: ({ state }) => state, cell: ({ state }) => nodeChip(state) },
    {
      ...{ id: 'since', title: 'Since', width: '5rem', from: 480, isNumber: true },
      by: ({ since }) => since,
      cell: ({ since }) => <time dateTime={since}>{spanText(store.now() - Date.parse(since))}</time>,
    },
    textColumn({ id: 'version', title: 'Version', width: '6rem', from: 760 }, ({ version }) => version),
    countColumn({ id: 'volumes', title: 'Volumes', width: '5.5rem', from: 560 }, ({ volumes }) => volumes),
    countColumn({ id: 'snapshots', title: 'Snapshots', from: 860 }, ({ snapshots }) => snapshots),
    {
      ...{ id: 'full', title: 'Space', width: 'minmax(6rem, 2fr)', from: 700 },
      by({ node }) {
        const space = spaces.get(node);
        return space === undefined ? -1 : fullness(space);
      },
      cell: ({ node }) => <Bar space={spaces.get(node)} />,
    },
    {
      ...{ id: 'pools', title: 'Pools', width: 'minmax(7rem, 2fr)', from: 980 },
      cell: (node) => <PoolLinks node={node} />,
    },
    {
      ...{ id: 'act', title: '', width: '5.5rem' },
      cell: (node) =>
        node.state === 'away' && mayForget ? (
          <button type="button" class="small" onClick={() => act({ change: 'forget', node })}>
            Forget …
          </button>
        ) : null,
    },
  ];
  return (
    <List
      {...{ label: 'Nodes', sort: 'node', route, all, columns }}
      keyOf={({ node }) => node}
      isDim={({ state }) => state === 'away'}
      textsOf={(node) => [node.node, node.version, ...node.pools.map(({ name }) => name)]}
      choices={[
        {
          ...{ key: 'state', title: 'State', values: ['linked', 'telling', 'away'] },
          fits: ({ state }, value) => state === value,
        },
      ]}
      empty="No node has the driver yet."
      unfit="No node fits the search."
    />
  );
}

function PoolLinks({ node: { node, pools } }: { node: Node }) {
  return (
    <span class="several">
      {pools.map(({ name, reason = '', state }) => (
        <a key={name} tabIndex={-1} title={nameText(reason)} {...linkTo({ view: 'pools', q: node })}>
          <Name>{name}</Name>
          {['open', 'closed', 'absent'].includes(state) ? null : <Chip kind="bad">{state}</Chip>}
        </a>
      ))}
    </span>
  );
}
