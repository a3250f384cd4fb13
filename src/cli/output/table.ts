import type { Output } from './output.ts';
import { columnsOf, shortened, wrapped } from './text.ts';

/** A column of a table for people. */
export interface Column {
  readonly title: string;
  /** Numbers are easier to compare with their ends in one line. */
  readonly align?: 'left' | 'right';
  /** Columns with the smallest number are left out first where a table is wider than the terminal. */
  readonly extra?: number;
  /** Its cells may be shortened where that is not enough. */
  readonly flexible?: true;
  /** For sentences, in the last column: they go on in a further line rather than beyond the terminal. */
  readonly wraps?: true;
}

/** Prints a table, as wide as the terminal; without rows, it names for people the things that are missing. */
export function printTable(
  output: Output,
  columns: readonly Column[],
  { none, rows }: { readonly rows: readonly (readonly string[])[]; readonly none?: string },
): void {
  const isEmpty = rows.length === 0 && none !== undefined && output.width !== undefined;
  for (const line of isEmpty ? [none] : tableLines(columns, rows, output.width)) output.line(line);
}

/** The lines of a table, its title line first; columns as wide as their widest cell, two spaces apart. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  terminalWidth?: number,
): string[] {
  const all = [columns.map(({ title }) => title), ...rows];
  const widths = all.reduce(widened, []);
  const fitted = fit(columns, widths, terminalWidth);
  return all.flatMap((row) => rowLines(fitted, row));
}

/** The columns that are shown, and how wide. */
export interface FittedTable {
  readonly columns: readonly (Column & { readonly index: number })[];
  readonly widths: readonly number[];
}

const gap = 2;
/** A name that is shorter says too little. */
const shortestFlexible = 12;
/** Sentences in fewer columns are hard to read: other columns give way first. */
const shortestWrapped = 40;

/** Leaves out columns, and shortens others, until the table is no wider than the terminal. */
export function fit(columns: readonly Column[], widths: readonly number[], terminalWidth = Infinity): FittedTable {
  const isBounded = terminalWidth !== Infinity;
  let shown = columns.map((column, index) => {
    const width = widths[index] ?? 0;
    return { ...column, index, width: column.wraps && isBounded ? Math.min(width, shortestWrapped) : width };
  });
  const excess = () => shown.reduce((sum, { width }) => sum + width + gap, -gap) - terminalWidth;
  while (excess() > 0) {
    const numbers = shown.flatMap(({ extra }) => extra ?? []);
    if (numbers.length === 0) break;
    const first = Math.min(...numbers);
    shown = shown.filter(({ extra }) => extra !== first);
  }
  for (;;) {
    const tooMuch = excess();
    const flexible = shown.filter(({ flexible, width }) => flexible === true && width > shortestFlexible);
    if (tooMuch <= 0 || flexible.length === 0) break;
    const widest = flexible.reduce((one, other) => (other.width > one.width ? other : one));
    const width = Math.max(shortestFlexible, widest.width - tooMuch);
    shown = shown.map((column) => (column.index === widest.index ? { ...column, width } : column));
  }
  const room = -excess();
  return {
    columns: shown,
    widths: shown.map(({ index, width, wraps }) =>
      wraps && room > 0 ? Math.min(widths[index] ?? 0, width + room) : width,
    ),
  };
}

/** A row in as many lines as its sentences need. */
export function rowLines(fitted: FittedTable, row: readonly string[]): string[] {
  const last = fitted.columns.at(-1);
  if (last?.wraps !== true) return [fittedLine(fitted, row)];
  const parts = wrapped(row[last.index] ?? '', fitted.widths.at(-1) ?? Infinity);
  return parts.map((part, place) =>
    fittedLine(
      fitted,
      row.map((cell, index) => (index === last.index ? part : place === 0 ? cell : '')),
    ),
  );
}

function fittedLine({ columns, widths }: FittedTable, row: readonly string[]): string {
  const cells = columns.map(({ flexible, index }, place) => {
    const cell = row[index] ?? '';
    return flexible === true ? shortened(cell, widths[place] ?? 0) : cell;
  });
  return rowLine(columns, widths, cells);
}

/** The widths of the columns once they also hold this row. */
export function widened(widths: readonly number[], row: readonly string[]): number[] {
  return row.map((cell, index) => Math.max(widths[index] ?? 0, columnsOf(cell)));
}

function rowLine(columns: readonly Column[], widths: readonly number[], row: readonly string[]): string {
  return columns
    .map(({ align }, index) => {
      const cell = row[index] ?? '';
      const blanks = ' '.repeat(Math.max(0, (widths[index] ?? 0) - columnsOf(cell)));
      return align === 'right' ? blanks + cell : cell + blanks;
    })
    .join('  ')
    .trimEnd();
}
