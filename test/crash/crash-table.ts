import type { CrashPoint } from '../../src/volume/step.ts';

type Outcome = 'ok' | 'FAILED';

interface Row {
  readonly operation: string;
  readonly step: string;
  /** By the way that was gone after the crash. */
  readonly outcomes: Map<string, Outcome>;
}

/** What came of the kills: a line for each operation and step. */
export class CrashTable {
  readonly #rows = new Map<string, Row>();
  readonly #startedMs = performance.now();

  /** @param way what was done once the driver was back */
  add(operation: string, { pass, step: name, when }: CrashPoint, way: string, outcome: Outcome): void {
    const step = pass === undefined ? name : `${name} ${pass}`;
    const key = `${operation}\n${step}`;
    const row = this.#rows.get(key) ?? { operation, step, outcomes: new Map<string, Outcome>() };
    row.outcomes.set(`${when}, ${way}`, outcome);
    this.#rows.set(key, row);
  }

  /** As text; nothing if there were no kills. */
  toString(): string {
    const rows = [...this.#rows.values()];
    const outcomes = rows.flatMap((row) => [...row.outcomes.values()]);
    const failed = outcomes.filter((outcome) => outcome === 'FAILED').length;
    const operations = new Set(rows.map(({ operation }) => operation)).size;
    const steps = new Set(rows.map(({ step }) => step)).size;
    const seconds = ((performance.now() - this.#startedMs) / 1000).toFixed(0);
    return [
      `${'operation'.padEnd(48)}${'step'.padEnd(22)}killed before or after the step, then what the caller did`,
      ...rows.map(line),
      `${operations} operations, ${steps} steps, ${outcomes.length} kills, ${failed} failed, ${seconds} s`,
    ].join('\n');
  }
}

function line({ operation, outcomes, step }: Row, index: number, rows: readonly Row[]): string {
  const name = rows[index - 1]?.operation === operation ? '' : operation;
  const cells = [...outcomes].map(([what, outcome]) => `${what} ${outcome}`.padEnd(22));
  return `${name.padEnd(48)}${step.padEnd(22)}${cells.join('').trimEnd()}`;
}
