import { bytesText, spanText } from '../format.ts';
import { Name } from '../parts.tsx';
import type { Store } from '../store.ts';
import type { Column } from './table.tsx';

type Head<Row> = Pick<Column<Row>, 'id' | 'title' | 'from'> & { readonly width?: string };

/** A text that is cut where its column ends. */
export function textColumn<Row>(
  { width = 'minmax(6rem, 1fr)', ...head }: Head<Row>,
  textOf: (row: Row) => string | undefined,
): Column<Row> {
  return { ...head, width, by: (row) => textOf(row) ?? '', cell: (row) => <Name>{textOf(row) ?? '–'}</Name> };
}

export function bytesColumn<Row>(
  { width = '5.5rem', ...head }: Head<Row>,
  bytesOf: (row: Row) => number | undefined,
): Column<Row> {
  return {
    ...{ ...head, width, isNumber: true },
    by: (row) => bytesOf(row) ?? -1,
    cell(row) {
      const bytes = bytesOf(row);
      return bytes === undefined ? '–' : bytesText(bytes);
    },
  };
}

export function countColumn<Row>({ width = '6.5rem', ...head }: Head<Row>, countOf: (row: Row) => number): Column<Row> {
  return { ...head, width, isNumber: true, by: countOf, cell: (row) => countOf(row).toLocaleString('en') };
}

/** For `ageColumn`: an event, and no object that has an age. */
export function agoText(span: string): string {
  return `${span} ago`;
}

/** The time since a moment; the youngest comes first. */
export function ageColumn<Row>(
  { width = '4.5rem', ...head }: Head<Row>,
  store: Store,
  momentOf: (row: Row) => string,
  words = (span: string) => span,
): Column<Row> {
  return {
    ...{ ...head, width, isNumber: true },
    by: (row) => -Date.parse(momentOf(row)),
    cell: (row) => words(spanText(store.now() - Date.parse(momentOf(row)))),
  };
}
