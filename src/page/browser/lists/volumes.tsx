import { volumeChip } from '../chips.tsx';
import { choicesOf } from '../filter.ts';
import { bytesText, claimOr, contentOf, numberOf } from '../format.ts';
import { filterBy } from '../route.ts';
import type { Volume } from '../types.ts';
import { useMade } from '../use-store.ts';
import { ageColumn, bytesColumn, countColumn, textColumn } from './columns.tsx';
import { List, type ViewProps } from './list.tsx';
import type { Column } from './table.tsx';

interface Row {
  readonly key: string;
  readonly volume: Volume;
}

export function Volumes({ route, store }: ViewProps) {
  const { nodes, volumes } = store.tables;
  const all = useMade(store, ['volumes'], () => [...volumes].map(([key, volume]): Row => ({ key, volume })));
  const columns: Column<Row>[] = [
    textColumn({ id: 'claim', title: 'Volume', width: 'minmax(9rem, 2.4fr)' }, ({ volume }) => claimOr(volume)),
    textColumn({ id: 'node', title: 'Node', width: 'minmax(6rem, 1.2fr)', from: 620 }, ({ volume }) => volume.node),
    textColumn({ id: 'pool', title: 'Pool', width: 'minmax(5rem, 1fr)', from: 900 }, ({ volume }) => volume.pool),
    bytesColumn({ id: 'size', title: 'Size', from: 420 }, ({ volume }) => numberOf(volume.sizeBytes)),
    {
      ...{ id: 'used', title: 'Used', width: '8rem', from: 480 },
      by: ({ volume: { usedBytes } }) => (usedBytes === undefined ? -1 : numberOf(usedBytes)),
      cell: ({ volume }) => <Used volume={volume} />,
    },
    {
      ...{ id: 'state', title: 'State', width: '6.5rem' },
      by: ({ volume }) => `${volume.condition === undefined ? 1 : 0} ${volume.state}`,
      cell: ({ volume }) => volumeChip(volume),
    },
    {
      ...{ id: 'content', title: 'Content', width: '5.5rem', from: 1040 },
      by: ({ volume }) => contentOf(volume),
      cell: ({ volume }) => contentOf(volume),
    },
    countColumn({ id: 'snapshots', title: 'Snapshots', from: 760 }, ({ volume }) => volume.snapshots.length),
    ageColumn({ id: 'age', title: 'Age', from: 1000 }, store, ({ volume }) => volume.createdAt),
  ];
  const ofNodes = {
    ...{ key: 'node', title: 'Node', values: choicesOf(all.map(({ volume }) => volume.node)) },
    fits: ({ volume }: Row, value: string) => volume.node === value,
  };
  return (
    <List
      {...{ label: 'Volumes', sort: 'claim', route, all, columns }}
      keyOf={({ key }) => key}
      onOpen={({ key }) => filterBy({ open: key })}
      openKey={route['open']}
      isDim={({ volume }) => nodes.get(volume.node)?.state === 'away'}
      textsOf={({ volume }) => [volume.id, volume.name, claimOr(volume), volume.node, volume.pool]}
      choices={[
        {
          ...{ key: 'ns', title: 'Namespace', values: choicesOf(all.map(({ volume }) => volume.claim?.namespace)) },
          fits: ({ volume }, value) => volume.claim?.namespace === value,
        },
        ...(store.hello?.scope === 'node' ? [] : [ofNodes]),
        {
          ...{ key: 'pool', title: 'Pool', values: choicesOf(all.map(({ volume }) => volume.pool)) },
          fits: ({ volume }, value) => volume.pool === value,
        },
        {
          ...{ key: 'state', title: 'State', values: ['abnormal', 'published', 'staged', 'attached', 'detached'] },
          fits: ({ volume }, value) =>
            volume.state === value || (value === 'abnormal' && volume.condition !== undefined),
        },
      ]}
      empty="There are no volumes yet."
      unfit="No volume fits the search."
    />
  );
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
