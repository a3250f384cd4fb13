import { columnsOf } from './text.ts';

/** A column of a table for people. */
export interface Column {
  readonly title: string;
  /** Numbers are easier to compare with their ends in one line. */
  readonly align?: 'left' | 'right';
}

/** The lines of a table, its title line first; columns as wide as their widest cell, two spaces apart. */
export function tableLines(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const titles = columns.map(({ title }) => title);
  const widths = columns.map((_, index) => Math.max(...[titles, ...rows].map((row) => columnsOf(row[index] ?? ''))));
  return [titles, ...rows].map((row) =>
    columns
      .map(({ align }, index) => {
        const cell = row[index] ?? '';
        const gap = ' '.repeat((widths[index] ?? 0) - columnsOf(cell));
        return align === 'right' ? gap + cell : cell + gap;
      })
      .join('  ')
      .trimEnd(),
  );
}
