import { findingsOf } from './findings.ts';
import { bytesText, counted, percentText } from './format.ts';
import { poolChip } from './lists.tsx';
import { Bar, Legend, Name } from './parts.tsx';
import { filterBy, linkTo } from './route.ts';
import { fullness, sumOf } from './space.ts';
import { type Column, Table } from './table.tsx';
import { useMade, usePools } from './use-store.ts';
import type { ViewProps } from './views.tsx';

const maxFindings = 20;

/** The findings with their remedies, then the space of all pools. */
export function Overview({ route, store }: ViewProps) {
  const { nodes, pools, snapshots, trash, volumes } = store.tables;
  const scope = store.hello?.scope ?? 'fleet';
  const findings = useMade(store, ['nodes', 'pools', 'volumes', 'trash', 'moves', 'state'], () =>
    findingsOf(store.tables, store.state, store.now(), scope),
  );
  const rows = usePools(store);
  const total = useMade(store, ['pools', 'trash'], () => sumOf(rows.flatMap(({ space }) => space ?? [])));
  const away = [...nodes.values()].filter(({ state }) => state === 'away').length;
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1fr)',
      by: ({ pool }) => pool.node,
      cell: ({ pool }) => <Name>{pool.node}</Name>,
    },
    {
      id: 'pool',
      title: 'Pool',
      width: 'minmax(5rem, 1fr)',
      by: ({ pool }) => pool.name,
      cell: ({ pool }) => <Name>{pool.name}</Name>,
    },
    {
      id: 'health',
      title: 'Health',
      width: '7rem',
      from: 560,
      by: ({ pool }) => pool.state,
      cell: ({ pool }) => poolChip(pool),
    },
    {
      id: 'full',
      title: 'Space',
      width: 'minmax(7rem, 3fr)',
      by: ({ space }) => (space === undefined ? 2 : fullness(space)),
      cell: ({ space }) => <Bar space={space} />,
    },
    {
      id: 'used',
      title: 'Full',
      width: '4rem',
      isNumber: true,
      from: 420,
      by: ({ space }) => (space === undefined ? 2 : fullness(space)),
      cell: ({ space }) => (space === undefined ? '–' : percentText(fullness(space), 1)),
    },
    {
      id: 'free',
      title: 'Free',
      width: '6rem',
      from: 640,
      isNumber: true,
      by: ({ space }) => space?.free ?? -1,
      cell: ({ space }) => (space === undefined ? '–' : bytesText(space.free)),
    },
  ];
  const figures: readonly (readonly [string, string, string, string])[] = [
    ...(scope === 'fleet'
      ? [
          [
            'nodes',
            counted(nodes.size, 'node'),
            away === 0 ? 'all linked' : `${away} away`,
            away === 0 ? '' : 'bad',
          ] as const,
        ]
      : []),
    ['pools', counted(pools.size, 'pool'), total === undefined ? '' : `${bytesText(total.disk)} of disks`, ''],
    [
      'volumes',
      counted(volumes.size, 'volume'),
      total === undefined ? '' : `${bytesText(total.provisioned)} provisioned`,
      '',
    ],
    ['snapshots', counted(snapshots.size, 'snapshot'), total === undefined ? '' : bytesText(total.snapshots), ''],
    ['trash', `${trash.size.toLocaleString('en')} in the trash`, total === undefined ? '' : bytesText(total.trash), ''],
  ];
  const { waiting } = store.state;
  return (
    <div class="overview">
      <section class="findings" aria-labelledby="findings">
        <h2 id="findings">
          {findings.length > 0
            ? counted(findings.length, 'thing to look at', 'things to look at')
            : waiting > 0
              ? `Waiting for ${counted(waiting, 'node')} …`
              : 'Nothing is wrong'}
        </h2>
        <ul>
          {findings.slice(0, maxFindings).map(({ advice, link, severity, title }) => (
            <li key={title} class={severity}>
              <span class="mark" role="img" aria-label={severity} />
              <div>
                {link === undefined ? <strong>{title}</strong> : <a {...linkTo(link)}>{title}</a>}
                <p>{advice}</p>
              </div>
            </li>
          ))}
        </ul>
      </section>
      <section class="figures" aria-label="In numbers">
        {figures.map(([view, number, words, kind]) => (
          <a key={view} class={`figure ${kind}`} {...linkTo({ view })}>
            <strong>{number}</strong>
            <span>{words}</span>
          </a>
        ))}
      </section>
      {total === undefined ? null : (
        <section class="total" aria-label="Space of all pools">
          <p>
            <strong>{percentText(fullness(total), 1)} full</strong>
            <span>
              {bytesText(total.free)} of {bytesText(total.disk)} are free for new volumes
            </span>
          </p>
          <Bar space={total} large />
          <Legend space={total} />
        </section>
      )}
      <section class="pools" aria-label="Pools of all nodes">
        <Table
          label="Pools, the fullest first"
          {...{ rows, columns }}
          keyOf={({ key }) => key}
          sort={route['sort'] ?? '-full'}
          onSort={(sort) => filterBy({ sort })}
          onOpen={({ key }) => filterBy({ open: key })}
          openKey={route['open']}
          none={waiting > 0 ? 'Waiting for the nodes …' : 'There are no pools.'}
        />
      </section>
    </div>
  );
}
