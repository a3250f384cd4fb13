import { lackFor } from '../actions.tsx';
import { choicesOf } from '../filter.ts';
import { bytesText, nameText, numberOf, percentText, spanText } from '../format.ts';
import { endsOf, titleOf, toldOnce } from '../move-ends.ts';
import { Chip, Name } from '../parts.tsx';
import { linkTo } from '../route.ts';
import type { Move, Tables } from '../types.ts';
import { useMade } from '../use-store.ts';
import { ageColumn, agoText, textColumn } from './columns.tsx';
import { type Acting, List } from './list.tsx';
import type { Column } from './table.tsx';

const states = ['running', 'failed', 'cancelled', 'done'] as const;

type Row = ReturnType<typeof rowsOf>[number];

function rowsOf({ moves, volumes }: Pick<Tables, 'moves' | 'volumes'>) {
  return toldOnce(moves).map(([key, move]) => ({ key, move, title: titleOf(move, { volumes }), ends: endsOf(move) }));
}

export function Moves({ act, route, store }: Acting) {
  const all = useMade(store, ['moves', 'volumes'], () => rowsOf(store.tables));
  const lack = lackFor(store, 'cancel');
  const buttons: Column<Row> = {
    ...{ id: 'act', title: '', width: '6.5rem' },
    cell: ({ move, title }) =>
      move.state === 'running' || move.state === 'failed' ? (
        <span class="acts">
          <button type="button" class="small" onClick={() => act({ change: 'cancel', move, title })}>
            Cancel …
          </button>
        </span>
      ) : null,
  };
  const columns: Column<Row>[] = [
    {
      ...textColumn({ id: 'volume', title: 'Volume', width: 'minmax(7rem, 2fr)' }, ({ title }) => title),
      cell: ({ move, title }) => (
        <a {...linkTo({ view: 'volumes', q: move.id })} tabIndex={-1}>
          <Name>{title}</Name>
        </a>
      ),
    },
    textColumn({ id: 'node', title: 'Node', from: 820 }, ({ move }) => move.node),
    textColumn(
      { id: 'pools', title: 'From, to', width: 'minmax(8rem, 1.6fr)', from: 640 },
      ({ ends }) => `${ends.from} → ${ends.to}`,
    ),
    {
      ...{ id: 'state', title: 'State', width: '6.5rem' },
      // Those that run come first.
      by: ({ move }) => `${states.indexOf(move.state)} ${move.startedAt}`,
      cell: ({ move }) => stateChip(move),
    },
    {
      ...{ id: 'copied', title: 'Copied', width: 'minmax(9rem, 1.4fr)' },
      by: ({ move }) => partOf(move) ?? -1,
      cell: ({ move }) => <Progress move={move} />,
    },
    ageColumn(
      { id: 'started', title: 'Started', width: '5.5rem', from: 960 },
      store,
      ({ move }) => move.startedAt,
      agoText,
    ),
    ...(lack === undefined ? [buttons] : []),
  ];
  return (
    <List
      {...{ label: 'Moves', sort: 'state', route, all, columns }}
      keyOf={({ key }) => key}
      textsOf={({ ends, move, title }) => [title, move.id, move.node, ends.from, ends.to]}
      choices={[
        {
          ...{ key: 'state', title: 'State', values: choicesOf(all.map(({ move }) => move.state)) },
          fits: ({ move }, value) => move.state === value,
        },
      ]}
      empty="No volume moves. kubectl holdfast move CLAIM --to NODE begins a move."
      unfit="No move fits the search."
    >
      {lack === undefined || all.length === 0 ? null : <p class="lack">{lack}</p>}
    </List>
  );
}

function stateChip({ phase, reason, state }: Move) {
  if (state === 'running') {
    return (
      <Chip kind={reason === undefined ? 'busy' : 'warn'}>
        <span title={reason === undefined ? undefined : nameText(reason)}>{phase ?? state}</span>
      </Chip>
    );
  }
  return <Chip kind={state === 'done' ? 'good' : state === 'failed' ? 'bad' : 'quiet'}>{state}</Chip>;
}

/** The copied part of this round, from 0 to 1; undefined: nothing is copied now. */
function partOf({ doneBytes, state, totalBytes }: Move): number | undefined {
  const total = numberOf(totalBytes);
  return state !== 'running' || total === 0 ? undefined : Math.min(1, numberOf(doneBytes) / total);
}

function Progress({ move }: { move: Move }) {
  const { bytesPerSecond, doneBytes, phase, reason, round = 1, state, totalBytes } = move;
  const part = partOf(move);
  if (reason !== undefined && (state !== 'running' || part === undefined)) return <Name>{reason}</Name>;
  if (phase === 'waiting') return <span>until no pod uses it</span>;
  if (part === undefined) return null;
  const rate = numberOf(bytesPerSecond);
  const left = rate === 0 ? '' : `, ${spanText((1000 * (numberOf(totalBytes) - numberOf(doneBytes))) / rate)} left`;
  const words = `round ${round}: ${bytesText(numberOf(doneBytes))} of ${bytesText(numberOf(totalBytes))}, ${bytesText(rate)} a second${left}`;
  return (
    <span class="progress" title={words}>
      <progress max={1} value={part} aria-label={words} />
      <span>{percentText(part, 1)}</span>
    </span>
  );
}
