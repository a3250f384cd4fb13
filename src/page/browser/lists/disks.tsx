import { useEffect, useState } from 'preact/hooks';
import { ask } from '../client.ts';
import { choicesOf } from '../filter.ts';
import { nameText, numberOf, someOf } from '../format.ts';
import { Chip, Name } from '../parts.tsx';
import type { Disk, Disks } from '../types.ts';
import { bytesColumn, textColumn } from './columns.tsx';
import { List, type ViewProps } from './list.tsx';
import type { Column } from './table.tsx';

type Looked =
  | { readonly is: 'looking' }
  | { readonly is: 'failed'; readonly message: string }
  | { readonly is: 'there'; readonly answer: Disks };

/** The disks of all nodes. A look at a disk touches it for a moment, so the view asks only when it is opened, and by its button. */
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
  const columns: Column<Disk>[] = [
    textColumn({ id: 'node', title: 'Node' }, ({ node }) => node),
    {
      ...textColumn({ id: 'disk', title: 'Disk' }, ({ path }) => path),
      cell: ({ path }) => <Name mono>{path}</Name>,
    },
    bytesColumn({ id: 'size', title: 'Size', from: 440 }, ({ sizeBytes }) => numberOf(sizeBytes)),
    {
      ...{ id: 'bus', title: 'Bus', width: '5.5rem', from: 900 },
      by: ({ bus }) => bus,
      cell: ({ bus, rotational }) => `${bus} ${rotational ? 'hdd' : 'ssd'}`,
    },
    textColumn({ id: 'model', title: 'Model', from: 820 }, ({ model }) => model),
    textColumn({ id: 'serial', title: 'Serial', from: 1100 }, ({ serial }) => serial),
    {
      ...{ id: 'free', title: 'Free', width: '4.5rem' },
      by: ({ free }) => (free ? 0 : 1),
      cell: ({ free }) => (free ? <Chip kind="good">yes</Chip> : <Chip kind="quiet">no</Chip>),
    },
    {
      ...textColumn({ id: 'why', title: 'Why', width: 'minmax(9rem, 3fr)' }, ({ reasons }) => reasons.join('; ')),
      cell: ({ free, links, path, reasons }) => (
        <Name>{free ? `blank and not in use: ${links[0] ?? path}` : reasons.join('; ')}</Name>
      ),
    },
  ];
  const unsure = [...missing.map(({ message, node: of }) => `node ${of}: ${message}`), ...problems];
  return (
    <List
      {...{ label: 'Disks', sort: 'node', route, all: disks, columns }}
      keyOf={({ node, path }) => `${node} ${path}`}
      textsOf={({ bus, links, model, node, path, reasons, serial }) => [
        ...[node, path, model, serial, bus, ...reasons, ...links],
      ]}
      choices={[
        {
          ...{ key: 'node', title: 'Node', values: choicesOf(disks.map(({ node }) => node)) },
          fits: ({ node }, value) => node === value,
        },
        {
          ...{ key: 'free', title: 'Free', values: ['yes', 'no'] },
          fits: ({ free }, value) => free === (value === 'yes'),
        },
      ]}
      empty={
        looked.is === 'looking'
          ? 'Looking at the disks of all nodes …'
          : looked.is === 'failed'
            ? nameText(looked.message)
            : 'No disk was found.'
      }
      unfit="No disk fits the search."
    >
      <button type="button" disabled={looked.is === 'looking'} onClick={() => setRound(round + 1)}>
        Look again
      </button>
      {unsure.length === 0 ? null : <p class="lack">Not all answered: {someOf(unsure, 3)}</p>}
    </List>
  );
}
