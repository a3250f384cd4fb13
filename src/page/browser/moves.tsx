import { type Action, lackFor } from './actions.tsx';
import { bytesText, nameText, numberOf, percentText, spanText } from './format.ts';
import { endsOf, titleOf, toldOnce } from './move-ends.ts';
import { Chip, Name } from './parts.tsx';
import { linkTo } from './route.ts';
import type { Column } from './table.tsx';
import type { Move } from './types.ts';
import { useMade } from './use-store.ts';
import { choicesOf, Filters, List, matcher, type ViewProps } from './views.tsx';

const states = ['running', 'failed', 'cancelled', 'done'] as const;

export function Moves({ act, route, store }: ViewProps & { act: (action: Action) => void }) {
  const { moves, volumes } = store.tables;
  const all = useMade(store, ['moves', 'volumes'], () =>
    toldOnce(moves).map(([key, move]) => ({ key, move, title: titleOf(move, { volumes }), ends: endsOf(move) })),
  );
  type Row = (typeof all)[number];
  const { q = '', state = '' } = route;
  const rows = useMade(
    store,
    ['moves', 'volumes'],
    () => {
      const fits = matcher(q);
      return all.filter(
        ({ ends, move, title }) =>
          (state === '' || move.state === state) && fits([title, move.id, move.node, ends.from, ends.to]),
      );
    },
    [q, state],
  );
  const lack = lackFor(store, 'cancel');
  const columns: Column<Row>[] = [
    {
      id: 'volume',
      title: 'Volume',
      width: 'minmax(7rem, 2fr)',
      by: ({ title }) => title,
      cell: ({ move, title }) => (
        <a {...linkTo({ view: 'volumes', q: move.id })} tabIndex={-1}>
          <Name>{title}</Name>
        </a>
      ),
    },
    {
      id: 'node',
      title: 'Node',
      width: 'minmax(6rem, 1fr)',
      from: 820,
      by: ({ move }) => move.node,
      cell: ({ move }) => <Name>{move.node}</Name>,
    },
    {
      id: 'pools',
      title: 'From, to',
      width: 'minmax(8rem, 1.6fr)',
      from: 640,
      by: ({ ends }) => `${ends.from} ${ends.to}`,
      cell: ({ ends }) => <Name>{`${ends.from} → ${ends.to}`}</Name>,
    },
    {
      id: 'state',
      title: 'State',
      width: '6.5rem',
      // Those that run come first.
      by: ({ move }) => `${states.indexOf(move.state)} ${move.startedAt}`,
      cell: ({ move }) => stateChip(move),
    },
    {
      id: 'copied',
      title: 'Copied',
      width: 'minmax(9rem, 1.4fr)',
      by: ({ move }) => partOf(move) ?? -1,
      cell: ({ move }) => <Progress move={move} />,
    },
    {
      id: 'started',
      title: 'Started',
      width: '5.5rem',
      from: 960,
      isNumber: true,
      by: ({ move }) => -Date.parse(move.startedAt),
      cell: ({ move }) => `${spanText(store.now() - Date.parse(move.startedAt))} ago`,
    },
    ...(lack === undefined
      ? [
          {
            id: 'act',
            title: '',
            width: '6.5rem',
            cell: ({ move, title }: Row) =>
              move.state === 'running' || move.state === 'failed' ? (
                <span class="acts">
                  <button type="button" class="small" onClick={() => act({ change: 'cancel', move, title })}>
                    Cancel …
                  </button>
                </span>
              ) : null,
          },
        ]
      : []),
  ];
  return (
    <List
      label="Moves"
      {...{ route, rows, columns, sort: 'state' }}
      keyOf={({ key }) => key}
      none={
        all.length === 0
          ? 'No volume moves. kubectl holdfast move CLAIM --to NODE begins a move.'
          : 'No move fits the search.'
      }
      filters={
        <Filters
          route={route}
          count={rows.length}
          of={all.length}
          choices={[{ key: 'state', title: 'State', values: choicesOf(all.map(({ move }: Row) => move.state)) }]}
        >
          {lack === undefined || all.length === 0 ? null : <p class="lack">{lack}</p>}
        </Filters>
      }
    />
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
