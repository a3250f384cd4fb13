import { useEffect, useState } from 'preact/hooks';
import { ask } from './client.ts';
import { bytesText, nameText, numberOf, someOf } from './format.ts';
import { Chip, Name } from './parts.tsx';
import type { Column } from './table.tsx';
import type { Disk, Disks } from './types.ts';
import { choicesOf, Filters, List, matcher, type ViewProps } from './views.tsx';

type Looked =
  | { readonly is: 'looking' }
  | { readonly is: 'failed'; readonly message: string }
  | { readonly is: 'there'; readonly answer: Disks };

/** The disks of all nodes. To look at a disk touches it for a moment, so this is done when somebody asks for it. */
export function DisksView({ route }: ViewProps) {
  const [looked, setLooked] = useState<Looked>({ is: 'looking' });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    const { signal } = left;
    setLooked({ is: 'looking' });
    ask<Disks>('disks', {}, { signal }).then(
      (answer) => setLooked({ is: 'there', answer }),
      (error: unknown) =>
        signal.aborted || setLooked({ is: 'failed', message: error instanceof Error ? error.message : '' }),
    );
    return () => left.abort();
  }, [round]);

  const { disks, missing, problems } = looked.is === 'there' ? looked.answer : { disks: [], missing: [], problems: [] };
  const { free = '', node = '', q = '' } = route;
  const fits = matcher(q);
  const rows = disks.filter(
    (disk) =>
      (node === '' || disk.node === node) &&
      (free === '' || disk.free === (free === 'yes')) &&
      fits([disk.node, disk.path, disk.model, disk.serial, disk.bus, ...disk.reasons, ...disk.links]),
  );
  const columns: Column<Disk>[] = [
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1fr)',
      by: (disk) => disk.node,
      cell: (disk) => <Name>{disk.node}</Name>,
    },
    {
      id: 'disk',
      title: 'Disk',
      width: 'minmax(6rem, 1fr)',
      by: ({ path }) => path,
      cell: ({ path }) => <Name mono>{path}</Name>,
    },
    {
      id: 'size',
      title: 'Size',
      width: '5.5rem',
      from: 440,
      isNumber: true,
      by: ({ sizeBytes }) => numberOf(sizeBytes),
      cell: ({ sizeBytes }) => bytesText(numberOf(sizeBytes)),
    },
    {
      id: 'bus',
      title: 'Bus',
      width: '5.5rem',
      from: 900,
      by: ({ bus }) => bus,
      cell: ({ bus, rotational }) => `${bus} ${rotational ? 'hdd' : 'ssd'}`,
    },
    {
      id: 'model',
      title: 'Model',
      width: 'minmax(6rem, 1fr)',
      from: 820,
      by: ({ model = '' }) => model,
      cell: ({ model = '–' }) => <Name>{model}</Name>,
    },
    {
      id: 'serial',
      title: 'Serial',
      width: 'minmax(6rem, 1fr)',
      from: 1100,
      by: ({ serial = '' }) => serial,
      cell: ({ serial = '–' }) => <Name>{serial}</Name>,
    },
    {
      id: 'free',
      title: 'Free',
      width: '4.5rem',
      by: (disk) => (disk.free ? 0 : 1),
      cell: (disk) => (disk.free ? <Chip kind="good">yes</Chip> : <Chip kind="quiet">no</Chip>),
    },
    {
      id: 'why',
      title: 'Why',
      width: 'minmax(9rem, 3fr)',
      by: ({ reasons }) => reasons.join('; '),
      cell: (disk) => (
        <Name>{disk.free ? `blank and not in use: ${disk.links[0] ?? disk.path}` : disk.reasons.join('; ')}</Name>
      ),
    },
  ];
  const unsure = [...missing.map(({ message, node: of }) => `node ${of}: ${message}`), ...problems];
  return (
    <List
      label="Disks"
      {...{ route, rows, columns, sort: 'node' }}
      keyOf={(disk) => `${disk.node} ${disk.path}`}
      none={
        looked.is === 'looking'
          ? 'Looking at the disks of all nodes …'
          : looked.is === 'failed'
            ? nameText(looked.message)
            : 'No disk fits.'
      }
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={disks.length}
          choices={[
            { key: 'node', title: 'Node', values: choicesOf(disks.map((disk) => disk.node)) },
            { key: 'free', title: 'Free', values: ['yes', 'no'] },
          ]}
        >
          <button type="button" disabled={looked.is === 'looking'} onClick={() => setRound(round + 1)}>
            Look again
          </button>
          {unsure.length === 0 ? null : <p class="lack">Not all answered: {someOf(unsure, 3)}</p>}
        </Filters>
      }
    />
  );
}
