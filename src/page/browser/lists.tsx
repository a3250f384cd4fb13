import { type Action, lackFor } from './actions.tsx';
import { bytesText, claimOr, nameText, numberOf, spanText } from './format.ts';
import { Bar, Chip, History, Name } from './parts.tsx';
import { filterBy, linkTo } from './route.ts';
import { fullness, type Space, sumOf } from './space.ts';
import type { Column } from './table.tsx';
import type { Node, Pool, Snapshot, Trashed, Volume } from './types.ts';
import { useMade, usePools } from './use-store.ts';
import { choicesOf, Filters, List, matcher, type ViewProps } from './views.tsx';

type Act = (action: Action) => void;

function NodeLink({ node }: { node: string }) {
  return (
    <a {...linkTo({ view: 'nodes', q: node })} tabIndex={-1}>
      <Name>{node}</Name>
    </a>
  );
}

function nodeChip(state: Node['state']) {
  if (state === 'linked') return <Chip kind="good">linked</Chip>;
  return state === 'away' ? <Chip kind="bad">away</Chip> : <Chip kind="busy">telling</Chip>;
}

export function Nodes({ act, route, store }: ViewProps & { act: Act }) {
  const { nodes } = store.tables;
  const all = useMade(store, ['nodes'], () => [...nodes.values()]);
  const { q = '', state = '' } = route;
  const rows = useMade(
    store,
    ['nodes'],
    () => {
      const fits = matcher(q);
      return all.filter(
        (node) =>
          fits([node.node, node.version, ...node.pools.map(({ name }) => name)]) &&
          (state === '' || node.state === state),
      );
    },
    [q, state],
  );
  const mayForget = lackFor(store, 'forget') === undefined;
  const pools = usePools(store);
  const spaces = useMade(store, ['pools', 'trash'], () => {
    const byNode = Map.groupBy(pools, ({ pool }) => pool.node);
    return new Map([...byNode].map(([node, rows]) => [node, sumOf(rows.flatMap(({ space }) => space ?? []))]));
  });
  const columns: Column<Node>[] = [
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(8rem, 2fr)',
      by: ({ node }) => node,
      cell: ({ node }) => <Name>{node}</Name>,
    },
    { id: 'state', title: 'State', width: '6rem', by: (node) => node.state, cell: (node) => nodeChip(node.state) },
    {
      id: 'since',
      title: 'Since',
      width: '5rem',
      from: 480,
      isNumber: true,
      by: ({ since }) => since,
      cell: ({ since }) => <time dateTime={since}>{spanText(store.now() - Date.parse(since))}</time>,
    },
    {
      id: 'version',
      title: 'Version',
      width: '6rem',
      from: 760,
      by: ({ version = '' }) => version,
      cell: ({ version = '–' }) => <Name>{version}</Name>,
    },
    {
      id: 'volumes',
      title: 'Volumes',
      width: '5.5rem',
      from: 560,
      isNumber: true,
      by: ({ volumes }) => volumes,
      cell: ({ volumes }) => volumes.toLocaleString('en'),
    },
    {
      id: 'snapshots',
      title: 'Snapshots',
      width: '6.5rem',
      from: 860,
      isNumber: true,
      by: ({ snapshots }) => snapshots,
      cell: ({ snapshots }) => snapshots.toLocaleString('en'),
    },
    {
      id: 'full',
      title: 'Space',
      width: 'minmax(6rem, 2fr)',
      from: 700,
      by: ({ node }) => fullnessOf(spaces.get(node)),
      cell: ({ node }) => <Bar space={spaces.get(node)} />,
    },
    {
      id: 'pools',
      title: 'Pools',
      width: 'minmax(7rem, 2fr)',
      from: 980,
      cell: ({ node, pools }) => (
        <span class="several">
          {pools.map((pool) => (
            <a
              key={pool.name}
              tabIndex={-1}
              title={nameText(pool.reason ?? '')}
              {...linkTo({ view: 'pools', q: node })}
            >
              <Name>{pool.name}</Name>
              {['open', 'closed', 'absent'].includes(pool.state) ? null : <Chip kind="bad">{pool.state}</Chip>}
            </a>
          ))}
        </span>
      ),
    },
    {
      id: 'act',
      title: '',
      width: '5.5rem',
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
      label="Nodes"
      {...{ route, rows, columns, sort: 'node' }}
      keyOf={({ node }) => node}
      isDim={(node) => node.state === 'away'}
      none={all.length === 0 ? 'No node has the driver yet.' : 'No node fits the search.'}
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={all.length}
          choices={[{ key: 'state', title: 'State', values: ['linked', 'telling', 'away'] }]}
        />
      }
    />
  );
}

function fullnessOf(space: Space | undefined): number {
  return space === undefined ? -1 : fullness(space);
}

const sickStates = ['broken', 'quarantined', 'silent'];

export function Pools({ route, store }: ViewProps) {
  const all = usePools(store);
  type Row = (typeof all)[number];
  const { kind = '', q = '', state = '' } = route;
  const rows = useMade(
    store,
    ['pools', 'trash'],
    () => {
      const fits = matcher(q);
      return all.filter(
        ({ pool }) =>
          fits([
            pool.name,
            pool.node,
            pool.kind,
            pool.location.path,
            pool.section,
            ...Object.entries(pool.labels).flat(),
          ]) &&
          (kind === '' || pool.kind === kind) &&
          (state === '' || pool.state === state || (state === 'sick' && sickStates.includes(pool.state))),
      );
    },
    [q, kind, state],
  );
  const columns: Column<Row>[] = [
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1.4fr)',
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
      id: 'kind',
      title: 'Kind',
      width: '5rem',
      from: 620,
      by: ({ pool }) => pool.kind,
      cell: ({ pool }) => <Name>{pool.kind}</Name>,
    },
    {
      id: 'health',
      title: 'Health',
      width: '7rem',
      from: 440,
      by: ({ pool }) => pool.state,
      cell: ({ pool }) => poolChip(pool),
    },
    {
      id: 'full',
      title: 'Space',
      width: 'minmax(6rem, 2fr)',
      by: ({ space }) => (space === undefined ? -1 : fullness(space)),
      cell: ({ space }) => <Bar space={space} />,
    },
    {
      id: 'free',
      title: 'Free',
      width: '6rem',
      isNumber: true,
      by: ({ space }) => space?.free ?? -1,
      cell: ({ space }) => (space === undefined ? '–' : bytesText(space.free)),
    },
    {
      id: 'size',
      title: 'Size',
      width: '6rem',
      from: 900,
      isNumber: true,
      by: ({ space }) => space?.disk ?? -1,
      cell: ({ space }) => (space === undefined ? '–' : bytesText(space.disk)),
    },
    {
      id: 'history',
      title: 'Since opened',
      width: '9rem',
      from: 1080,
      cell: ({ key }) => <History moments={store.history.get(key) ?? []} />,
    },
    {
      id: 'where',
      title: 'Where',
      width: 'minmax(8rem, 1.6fr)',
      from: 1240,
      by: ({ pool }) => pool.location.path,
      cell: ({ pool }) => <Name>{`${pool.location.type} ${pool.location.path}`}</Name>,
    },
  ];
  return (
    <List
      label="Pools"
      {...{ route, rows, columns, sort: 'node' }}
      keyOf={({ key }) => key}
      onOpen={({ key }) => filterBy({ open: key })}
      openKey={route['open']}
      none={all.length === 0 ? 'No pool is known yet.' : 'No pool fits the search.'}
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={all.length}
          choices={[
            { key: 'kind', title: 'Kind', values: choicesOf(all.map(({ pool }) => pool.kind)) },
            { key: 'state', title: 'Health', values: ['sick', ...choicesOf(all.map(({ pool }) => pool.state))] },
          ]}
        />
      }
    />
  );
}

export function poolChip({ advice, damaged = [], state }: Pool) {
  const title = nameText(advice ?? '');
  if (sickStates.includes(state)) {
    return (
      <span title={title}>
        <Chip kind="bad">{state}</Chip>
      </span>
    );
  }
  if (damaged.length > 0) return <Chip kind="warn">{`${damaged.length} damaged`}</Chip>;
  return state === 'open' ? <Chip kind="good">open</Chip> : <Chip kind="quiet">{state}</Chip>;
}

export function volumeChip({ condition, state }: Pick<Volume, 'condition' | 'state'>) {
  if (condition !== undefined) {
    return (
      <span title={nameText(condition)}>
        <Chip kind="bad">not well</Chip>
      </span>
    );
  }
  return <Chip kind={state === 'published' ? 'good' : state === 'detached' ? 'quiet' : 'busy'}>{state}</Chip>;
}

export function Volumes({ route, store }: ViewProps) {
  const { volumes } = store.tables;
  const all = useMade(store, ['volumes'], () => [...volumes].map(([key, volume]) => ({ key, volume })));
  type Row = (typeof all)[number];
  const { node = '', ns = '', pool = '', q = '', state = '' } = route;
  const rows = useMade(
    store,
    ['volumes'],
    () => {
      const fits = matcher(q);
      return all.filter(
        ({ volume }) =>
          (node === '' || volume.node === node) &&
          (pool === '' || volume.pool === pool) &&
          (ns === '' || volume.claim?.namespace === ns) &&
          (state === '' || volume.state === state || (state === 'abnormal' && volume.condition !== undefined)) &&
          fits([
            volume.id,
            volume.name,
            volume.claim && `${volume.claim.namespace}/${volume.claim.name}`,
            volume.node,
            volume.pool,
          ]),
      );
    },
    [q, node, pool, ns, state],
  );
  const columns: Column<Row>[] = [
    {
      id: 'claim',
      title: 'Volume',
      width: 'minmax(9rem, 2.4fr)',
      by: ({ volume }) => claimOr(volume),
      cell: ({ volume }) => <Name>{claimOr(volume)}</Name>,
    },
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1.2fr)',
      from: 620,
      by: ({ volume }) => volume.node,
      cell: ({ volume }) => <Name>{volume.node}</Name>,
    },
    {
      id: 'pool',
      title: 'Pool',
      width: 'minmax(5rem, 1fr)',
      from: 900,
      by: ({ volume }) => volume.pool,
      cell: ({ volume }) => <Name>{volume.pool}</Name>,
    },
    {
      id: 'size',
      title: 'Size',
      width: '5.5rem',
      from: 420,
      isNumber: true,
      by: ({ volume }) => numberOf(volume.sizeBytes),
      cell: ({ volume }) => bytesText(numberOf(volume.sizeBytes)),
    },
    {
      id: 'used',
      title: 'Used',
      width: '8rem',
      from: 480,
      by: ({ volume }) => (volume.usedBytes === undefined ? -1 : numberOf(volume.usedBytes)),
      cell: ({ volume }) => <Used volume={volume} />,
    },
    {
      id: 'state',
      title: 'State',
      width: '6.5rem',
      by: ({ volume }) => `${volume.condition === undefined ? 1 : 0} ${volume.state}`,
      cell: ({ volume }) => volumeChip(volume),
    },
    {
      id: 'content',
      title: 'Content',
      width: '5.5rem',
      from: 1040,
      by: ({ volume }) => contentOf(volume),
      cell: ({ volume }) => contentOf(volume),
    },
    {
      id: 'snapshots',
      title: 'Snapshots',
      width: '6.5rem',
      from: 760,
      isNumber: true,
      by: ({ volume }) => volume.snapshots.length,
      cell: ({ volume }) => volume.snapshots.length,
    },
    {
      id: 'age',
      title: 'Age',
      width: '4.5rem',
      from: 1000,
      isNumber: true,
      by: ({ volume }) => -Date.parse(volume.createdAt),
      cell: ({ volume }) => spanText(store.now() - Date.parse(volume.createdAt)),
    },
  ];
  return (
    <List
      label="Volumes"
      {...{ route, rows, columns, sort: 'claim' }}
      keyOf={({ key }) => key}
      onOpen={({ key }) => filterBy({ open: key })}
      openKey={route['open']}
      isDim={({ volume }) => store.tables.nodes.get(volume.node)?.state === 'away'}
      none={all.length === 0 ? 'There are no volumes yet.' : 'No volume fits the search.'}
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={all.length}
          choices={[
            { key: 'ns', title: 'Namespace', values: choicesOf(all.map(({ volume }) => volume.claim?.namespace)) },
            ...(store.hello?.scope === 'node'
              ? []
              : [{ key: 'node', title: 'Node', values: choicesOf(all.map(({ volume }) => volume.node)) }]),
            { key: 'pool', title: 'Pool', values: choicesOf(all.map(({ volume }) => volume.pool)) },
            { key: 'state', title: 'State', values: ['abnormal', 'published', 'staged', 'attached', 'detached'] },
          ]}
        />
      }
    />
  );
}

export function contentOf({ content }: Pick<Volume, 'content'>): string {
  return content.type === 'mount' ? content.fsType : content.type;
}

function Used({ volume: { sizeBytes, usedBytes } }: { volume: Pick<Volume, 'sizeBytes' | 'usedBytes'> }) {
  if (usedBytes === undefined) return <span class="unknown">–</span>;
  const part = Math.min(1, numberOf(usedBytes) / Math.max(1, numberOf(sizeBytes)));
  return (
    <span class="used">
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class={part > 0.9 ? 'part-warn' : 'part-volumes'} width={100 * part} height="10" />
      </svg>
      <span>{bytesText(numberOf(usedBytes))}</span>
    </span>
  );
}

export function Snapshots({ route, store }: ViewProps) {
  const { snapshots, volumes } = store.tables;
  const all = useMade(store, ['snapshots', 'volumes'], () =>
    [...snapshots].map(([key, snapshot]) => {
      const source = volumes.get(`${snapshot.node}/${snapshot.sourceId}`);
      return {
        key,
        snapshot,
        of: source === undefined ? snapshot.sourceId : claimOr(source),
        isOrphan: source === undefined,
      };
    }),
  );
  type Row = (typeof all)[number];
  const { node = '', q = '' } = route;
  const rows = useMade(
    store,
    ['snapshots', 'volumes'],
    () => {
      const fits = matcher(q);
      return all.filter(
        ({ of, snapshot }) =>
          (node === '' || snapshot.node === node) &&
          fits([snapshot.id, snapshot.name, of, snapshot.sourceId, snapshot.groupId, snapshot.node]),
      );
    },
    [q, node],
  );
  const columns: Column<Row>[] = [
    {
      id: 'name',
      title: 'Snapshot',
      width: 'minmax(8rem, 2fr)',
      by: ({ snapshot }) => snapshot.name,
      cell: ({ snapshot }) => <Name>{snapshot.name}</Name>,
    },
    {
      id: 'of',
      title: 'Of volume',
      width: 'minmax(8rem, 2fr)',
      by: ({ of }) => of,
      cell: ({ isOrphan, of, snapshot }) =>
        isOrphan ? (
          <span class="unknown">{of} (gone)</span>
        ) : (
          <a
            tabIndex={-1}
            {...linkTo({ view: 'volumes', q: snapshot.sourceId, open: `${snapshot.node}/${snapshot.sourceId}` })}
          >
            <Name>{of}</Name>
          </a>
        ),
    },
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1fr)',
      from: 700,
      by: ({ snapshot }) => snapshot.node,
      cell: ({ snapshot }) => <NodeLink node={snapshot.node} />,
    },
    {
      id: 'pool',
      title: 'Pool',
      width: 'minmax(5rem, 1fr)',
      from: 860,
      by: ({ snapshot }) => snapshot.pool,
      cell: ({ snapshot }) => <Name>{snapshot.pool}</Name>,
    },
    {
      id: 'size',
      title: 'Size',
      width: '5.5rem',
      from: 480,
      isNumber: true,
      by: ({ snapshot }) => numberOf(snapshot.sizeBytes),
      cell: ({ snapshot }) => bytesText(numberOf(snapshot.sizeBytes)),
    },
    {
      id: 'group',
      title: 'Group',
      width: 'minmax(5rem, 1fr)',
      from: 1160,
      by: ({ snapshot }) => snapshot.groupId ?? '',
      cell: ({ snapshot }) => (snapshot.groupId === undefined ? '–' : <Name mono>{snapshot.groupId}</Name>),
    },
    {
      id: 'age',
      title: 'Age',
      width: '4.5rem',
      isNumber: true,
      by: ({ snapshot }) => -Date.parse(snapshot.createdAt),
      cell: ({ snapshot }) => spanText(store.now() - Date.parse(snapshot.createdAt)),
    },
  ];
  return (
    <List
      label="Snapshots"
      {...{ route, rows, columns, sort: 'age' }}
      keyOf={({ key }) => key}
      none={all.length === 0 ? 'There are no snapshots.' : 'No snapshot fits the search.'}
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={all.length}
          choices={
            store.hello?.scope === 'node'
              ? []
              : [
                  {
                    key: 'node',
                    title: 'Node',
                    values: choicesOf(all.map(({ snapshot }: { snapshot: Snapshot }) => snapshot.node)),
                  },
                ]
          }
        />
      }
    />
  );
}

export function Trash({ act, route, store }: ViewProps & { act: Act }) {
  const { trash } = store.tables;
  const all = useMade(store, ['trash'], () => [...trash].map(([key, volume]) => ({ key, volume })));
  type Row = (typeof all)[number];
  const { q = '' } = route;
  const rows = useMade(
    store,
    ['trash'],
    () => {
      const fits = matcher(q);
      return all.filter(({ volume }) => fits([volume.id, volume.name, claimOr(volume), volume.node, volume.pool]));
    },
    [q],
  );
  const mayRestore = lackFor(store, 'restore') === undefined;
  const mayPurge = lackFor(store, 'purge') === undefined;
  const lack = lackFor(store, 'restore') ?? lackFor(store, 'purge');
  const isAway = (volume: Trashed) =>
    store.tables.nodes.get(volume.node)?.state === 'away' && store.hello?.scope === 'fleet';
  const columns: Column<Row>[] = [
    {
      id: 'claim',
      title: 'Volume',
      width: 'minmax(7rem, 2fr)',
      by: ({ volume }) => claimOr(volume),
      cell: ({ volume }) => <Name>{claimOr(volume)}</Name>,
    },
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1fr)',
      from: 740,
      by: ({ volume }) => volume.node,
      cell: ({ volume }) => <NodeLink node={volume.node} />,
    },
    {
      id: 'pool',
      title: 'Pool',
      width: 'minmax(5rem, 1fr)',
      from: 900,
      by: ({ volume }) => volume.pool,
      cell: ({ volume }) => <Name>{volume.pool}</Name>,
    },
    {
      id: 'size',
      title: 'Size',
      width: '5.5rem',
      from: 1000,
      isNumber: true,
      by: ({ volume }) => numberOf(volume.sizeBytes),
      cell: ({ volume }) => bytesText(numberOf(volume.sizeBytes)),
    },
    {
      id: 'used',
      title: 'Frees',
      width: '5.5rem',
      from: 560,
      isNumber: true,
      by: ({ volume }) => numberOf(volume.usedBytes),
      cell: ({ volume }) => bytesText(numberOf(volume.usedBytes)),
    },
    {
      id: 'deleted',
      title: 'Deleted',
      width: '5rem',
      from: 820,
      isNumber: true,
      by: ({ volume }) => volume.deletedAt,
      cell: ({ volume }) => `${spanText(store.now() - Date.parse(volume.deletedAt))} ago`,
    },
    {
      id: 'until',
      title: 'Kept for',
      width: '5.5rem',
      isNumber: true,
      by: ({ volume }) => volume.purgeAt,
      cell: ({ volume }) => (
        <time dateTime={volume.purgeAt} title={`until ${volume.purgeAt}`}>
          {spanText(Date.parse(volume.purgeAt) - store.now())}
        </time>
      ),
    },
    ...(mayRestore || mayPurge
      ? [
          {
            id: 'act',
            title: '',
            width: '12.5rem',
            cell: ({ volume }: Row) => (
              <span class="acts">
                {mayRestore ? (
                  <button
                    type="button"
                    class="small"
                    disabled={isAway(volume)}
                    onClick={() => act({ change: 'restore', volume })}
                  >
                    Bring back …
                  </button>
                ) : null}
                {mayPurge ? (
                  <button
                    type="button"
                    class="small danger"
                    disabled={isAway(volume)}
                    onClick={() => act({ change: 'purge', volume })}
                  >
                    Purge …
                  </button>
                ) : null}
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <List
      label="Trash"
      {...{ route, rows, columns, sort: 'until' }}
      keyOf={({ key }) => key}
      isDim={({ volume }) => isAway(volume)}
      none={all.length === 0 ? 'The trash is empty.' : 'Nothing in the trash fits the search.'}
      filters={
        <Filters route={route} count={rows.length} of={all.length}>
          {lack === undefined ? null : <p class="lack">{lack}</p>}
        </Filters>
      }
    />
  );
}
