import { columnsOf } from './text.ts';

/** A column of a table for people. */
export interface Column {
  readonly title: string;
  /** Numbers are easier to compare with their ends in one line. */
  readonly align?: 'left' | 'right';
}

/** The lines of a table, its title line first; columns as wide as their widest cell, two spaces apart. */
export function tableLines(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const all = [columns.map(({ title }) => title), ...rows];
  const widths = all.reduce(widened, []);
  return all.map((row) => rowLine(columns, widths, row));
}

/** How wide columns are that have this row, too. */
export function widened(widths: readonly number[], row: readonly string[]): number[] {
  return row.map((cell, index) => Math.max(widths[index] ?? 0, columnsOf(cell)));
}

export function rowLine(columns: readonly Column[], widths: readonly number[], row: readonly string[]): string {
  return columns
    .map(({ align }, index) => {
      const cell = row[index] ?? '';
      const gap = ' '.repeat(Math.max(0, (widths[index] ?? 0) - columnsOf(cell)));
      return align === 'right' ? gap + cell : cell + gap;
    })
    .join('  ')
    .trimEnd();
}
