import type { ComponentChildren } from 'preact';
import { choicesOf, matcher } from './filter.ts';
import { filterBy, go, type Route } from './route.ts';
import type { Store } from './store.ts';
import { type Column, Table, type TableProps } from './table.tsx';

/** What each view gets. */
export interface ViewProps {
  readonly store: Store;
  readonly route: Route;
}

interface Choice {
  /** In the address. */
  readonly key: string;
  readonly title: string;
  readonly values: readonly string[];
}

/** Longest menu: the search finds a value among more. */
const maxChoices = 100;

/** The search and the filters of a view: they are in the address. */
export function Filters({
  choices = [],
  count,
  of,
  route,
  children,
}: {
  route: Route;
  choices?: readonly Choice[];
  count: number;
  of: number;
  children?: ComponentChildren;
}) {
  const isFiltered = count !== of;
  return (
    <search class="filters">
      <input
        type="search"
        id="search"
        placeholder="Search  ( / )"
        aria-label="Search in this list"
        value={route['q'] ?? ''}
        onInput={(event) => filterBy({ q: event.currentTarget.value })}
      />
      {choices
        .filter(({ key, values }) => values.length <= maxChoices || route[key])
        .map(({ key, title, values }) => (
          <label key={key}>
            <span>{title}</span>
            <select value={route[key] ?? ''} onChange={(event) => filterBy({ [key]: event.currentTarget.value })}>
              <option value="">all</option>
              {[...new Set([...values.slice(0, maxChoices), ...(route[key] ? [route[key]] : [])])].map((value) => (
                <option key={value} value={value}>
                  {value}
                </option>
              ))}
            </select>
          </label>
        ))}
      <output>
        {isFiltered ? `${count.toLocaleString('en')} of ${of.toLocaleString('en')}` : of.toLocaleString('en')}
      </output>
      {isFiltered ? (
        <button type="button" class="quiet" onClick={() => go({ view: route['view'] ?? '' })}>
          Clear
        </button>
      ) : null}
      {children}
    </search>
  );
}

/** A list with its filters. */
export function List<Row>({
  filters,
  sort,
  route,
  all,
  ...table
}: Omit<TableProps<Row>, 'onSort' | 'sort'> & {
  filters: ComponentChildren;
  sort: string;
  route: Route;
  all?: readonly Row[];
  columns: readonly Column<Row>[];
}) {
  return (
    <>
      {filters}
      <Table {...table} sort={route['sort'] ?? sort} onSort={(by) => filterBy({ sort: by })} />
    </>
  );
}

export { choicesOf, matcher };
