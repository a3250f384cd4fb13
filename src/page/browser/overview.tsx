import { findingsOf } from './findings.ts';
import { bytesText, counted, percentText } from './format.ts';
import type { ViewProps } from './lists/list.tsx';
import { poolColumn } from './lists/pools.tsx';
import { type Column, Table } from './lists/table.tsx';
import { Bar, Legend } from './parts.tsx';
import { filterBy, linkTo } from './route.ts';
import { fullness, sumOf } from './space.ts';
import { type PoolRow, useMade, usePools } from './use-store.ts';

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
  const columns: Column<PoolRow>[] = [
    poolColumn.node,
    poolColumn.pool,
    poolColumn.health,
    { ...poolColumn.space, width: 'minmax(7rem, 3fr)' },
    {
      ...{ id: 'used', title: 'Full', width: '4rem', isNumber: true, from: 420 },
      by: poolColumn.space.by,
      cell: ({ space }) => (space === undefined ? '–' : percentText(fullness(space), 1)),
    },
    { ...poolColumn.free, from: 640 },
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
