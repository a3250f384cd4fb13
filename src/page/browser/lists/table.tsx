import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** Of a grid: `2fr`, `6rem`. */
  readonly width: string;
  /** The table shows the column from this width on, in pixels. */
  readonly from?: number;
  readonly isNumber?: boolean;
  /** What the rows are sorted by. */
  readonly by?: (row: Row) => string | number;
  readonly cell: (row: Row) => ComponentChildren;
}

export interface TableProps<Row> {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Id of a column, with a minus before it: the largest first. */
  readonly sort: string;
  readonly onSort: (sort: string) => void;
  readonly onOpen?: ((row: Row) => void) | undefined;
  readonly openKey?: string | undefined;
  readonly isDim?: (row: Row) => boolean;
  readonly none: ComponentChildren;
}

const rowHeight = 40;
/** Rows beyond the edges that are there for a quick hand. */
const spareRows = 8;

/** A table of any length: only the rows that are seen exist. Arrows move, Enter opens. */
export function Table<Row>(props: TableProps<Row>) {
  const { columns, isDim, keyOf, label, none, onOpen, onSort, openKey, rows, sort } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600, width: 1200 });
  const [active, setActive] = useState(0);
  const shown = useMemo(() => columns.filter(({ from = 0 }) => view.width >= from), [columns, view.width]);
  const sorted = useMemo(() => sortedBy(rows, columns, sort), [rows, columns, sort]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const measure = () =>
      setView((old) => {
        const next = { top: element.scrollTop, height: element.clientHeight, width: element.clientWidth };
        return next.top === old.top && next.height === old.height && next.width === old.width ? old : next;
      });
    measure();
    element.addEventListener('scroll', measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - spareRows);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / rowHeight) + spareRows);
  const grid = { gridTemplateColumns: shown.map(({ width }) => width).join(' ') };
  const at = Math.min(active, Math.max(0, sorted.length - 1));

  const moveTo = (index: number) => {
    const to = Math.max(0, Math.min(sorted.length - 1, index));
    setActive(to);
    const element = box.current;
    if (element === null) return;
    const [above, below] = [to * rowHeight, (to + 2) * rowHeight - element.clientHeight];
    if (element.scrollTop > above) element.scrollTop = above;
    else if (element.scrollTop < below) element.scrollTop = below;
    requestAnimationFrame(() => element.querySelector<HTMLElement>(`[data-index="${to}"]`)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const moves: Readonly<Record<string, number>> = {
      ...{ ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page },
      ...{ Home: 0, End: sorted.length - 1 },
    };
    const row = sorted[at];
    if (
      event.key === 'Enter' &&
      row !== undefined &&
      event.target instanceof HTMLElement &&
      event.target.dataset['index'] !== undefined
    )
      onOpen?.(row);
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    moveTo(to);
  };

  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
      <div role="rowgroup" class="head">
        <div class="row" role="row" aria-rowindex={1} style={grid}>
          {shown.map((column) => {
            const direction = sort === column.id ? 'ascending' : sort === `-${column.id}` ? 'descending' : 'none';
            return (
              <div key={column.id} role="columnheader" aria-sort={direction} class={column.isNumber ? 'number' : ''}>
                {column.by === undefined ? (
                  <span>{column.title}</span>
                ) : (
                  <button
                    type="button"
                    class="sort"
                    onClick={() => onSort(direction === 'ascending' ? `-${column.id}` : column.id)}
                  >
                    {column.title}
                    <span aria-hidden="true" class="arrow">
                      {direction === 'ascending' ? '↑' : direction === 'descending' ? '↓' : ''}
                    </span>
                  </button>
                )}
              </div>
            );
          })}
        </div>
      </div>
      <div ref={box} class="body" role="rowgroup" onKeyDown={onKeyDown}>
        {sorted.length === 0 ? (
          <div role="row" class="none">
            <div role="cell">{none}</div>
          </div>
        ) : (
          <div class="tall" role="presentation" style={{ height: `${sorted.length * rowHeight}px` }}>
            {sorted.slice(first, last).map((row, offset) => {
              const index = first + offset;
              const key = keyOf(row);
              const classes = ['row', isDim?.(row) ? 'dim' : '', key === openKey ? 'open' : '', onOpen ? 'opens' : ''];
              return (
                <div
                  key={key}
                  class={classes.join(' ')}
                  role="row"
                  aria-rowindex={index + 2}
                  data-index={index}
                  tabIndex={index === at ? 0 : -1}
                  style={{ ...grid, transform: `translateY(${index * rowHeight}px)` }}
                  onFocus={() => setActive(index)}
                  onClick={() => onOpen?.(row)}
                  onKeyDown={() => undefined}
                >
                  {shown.map((column) => (
                    <div key={column.id} role="cell" class={column.isNumber ? 'number' : ''}>
                      {column.cell(row)}
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        )}
      </div>
    </div>
  );
}

/** For texts to be compared by: `disk-2` comes before `disk-10`. A comparison by Intl.Collator takes ten times as long. */
function sortText(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(20, '0'));
}

function sortedBy<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): readonly Row[] {
  const by = columns.find(({ id }) => id === sort.replace(/^-/, ''))?.by;
  if (by === undefined) return rows;
  const sign = sort.startsWith('-') ? -1 : 1;
  const keyed = rows.map((row) => {
    const key = by(row);
    return { row, key: typeof key === 'string' ? sortText(key) : key };
  });
  keyed.sort((one, other) => {
    if (one.key === other.key) return 0;
    return one.key < other.key ? -sign : sign;
  });
  return keyed.map(({ row }) => row);
}
