import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Action } from '../actions.tsx';
import { matcher } from '../filter.ts';
import { filterBy, go, type Route } from '../route.ts';
import type { Store } from '../store.ts';
import { Table, type TableProps } from './table.tsx';

/** The properties of each view. */
export interface ViewProps {
  readonly store: Store;
  readonly route: Route;
}

/** The properties of a view in which something can be changed. */
export interface Acting extends ViewProps {
  readonly act: (action: Action) => void;
}

/** A filter: a menu of values, of which one is in the address. */
export interface Choice<Row> {
  readonly key: string;
  readonly title: string;
  readonly values: readonly string[];
  readonly fits: (row: Row, value: string) => boolean;
}

/** Longest menu: the search finds a value among more. */
const maxChoices = 100;

interface ListProps<Row> extends Omit<TableProps<Row>, 'none' | 'onSort' | 'rows'> {
  readonly route: Route;
  readonly all: readonly Row[];
  /** The texts that the search looks at. */
  readonly textsOf: (row: Row) => readonly (string | undefined)[];
  readonly choices?: readonly Choice<Row>[];
  /** Shown if there are no rows at all. */
  readonly empty: string;
  /** Shown if no row fits the search and the filters. */
  readonly unfit: string;
  /** Beside the filters. */
  readonly children?: ComponentChildren;
}

/** A table with its search and its filters: they are in the address, as is the order. */
export function List<Row>(props: ListProps<Row>) {
  const { all, children, choices = [], empty, route, sort, textsOf, unfit, ...table } = props;
  const { q = '' } = route;
  const rows = useMemo(() => {
    const found = matcher(q);
    const chosen = choices.flatMap(({ fits, key }) => {
      const value = route[key] ?? '';
      return value === '' ? [] : (row: Row) => fits(row, value);
    });
    return all.filter((row) => chosen.every((fits) => fits(row)) && found(textsOf(row)));
  }, [all, q, ...choices.map(({ key }) => route[key])]);
  return (
    <>
      <search class="filters">
        <input
          type="search"
          id="search"
          placeholder="Search  ( / )"
          aria-label="Search in this list"
          value={q}
          onInput={(event) => filterBy({ q: event.currentTarget.value })}
        />
        {choices
          .filter(({ key, values }) => values.length <= maxChoices || route[key])
          .map(({ key, title, values }) => (
            <Menu
              key={key}
              {...{ title, values }}
              value={route[key]}
              onChange={(value) => filterBy({ [key]: value })}
            />
          ))}
        <output>
          {(rows.length === all.length ? [all] : [rows, all])
            .map(({ length }) => length.toLocaleString('en'))
            .join(' of ')}
        </output>
        {rows.length === all.length ? null : (
          <button type="button" class="quiet" onClick={() => go({ view: route['view'] ?? '' })}>
            Clear
          </button>
        )}
        {children}
      </search>
      <Table
        {...{ ...table, rows }}
        none={all.length === 0 ? empty : unfit}
        sort={route['sort'] ?? sort}
        onSort={(by) => filterBy({ sort: by })}
      />
    </>
  );
}

function Menu({
  onChange,
  title,
  value,
  values,
}: {
  title: string;
  value: string | undefined;
  values: readonly string[];
  onChange: (value: string) => void;
}) {
  const shown = new Set([...values.slice(0, maxChoices), ...(value ? [value] : [])]);
  return (
    <label>
      <span>{title}</span>
      <select value={value ?? ''} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {[...shown].map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}
