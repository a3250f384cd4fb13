import type { Exposition } from '../support/exposition.ts';
import { type RulesTest, testRules } from './rules.ts';

/** An alert, and those of its labels by which alerts of one name are told apart. */
export interface Firing {
  readonly alertname: string;
  readonly pool?: string;
  readonly queue?: string;
  readonly rpc?: string;
  readonly code?: string;
}

/** What Prometheus' operator adds to everything that it scrapes of one driver. */
const target = { job: 'holdfast-system/holdfast', instance: '10.0.0.1:9808', node: 'n1' };
const firing = 'group by (alertname, pool, queue, rpc, code) (ALERTS{alertstate="firing"})';

/**
 * What Prometheus would have stored of one driver, had it scraped it once a minute: each series as the driver itself told
 * it. Nothing here knows what alerts look at.
 */
export class Timeline {
  readonly #series = new Map<string, (number | undefined)[]>();
  readonly #expectations: { readonly minute: number; readonly firing: readonly Firing[] }[] = [];
  #minutes = 0;

  /**
   * The driver said this for so many minutes; undefined: it did not answer.
   * @param growing a metric that tells how long something has lasted, and the minutes that Prometheus saw of it before
   */
  lasts(
    minutes: number,
    seen: Exposition | undefined,
    growing?: { readonly name: string; readonly minutes: number },
  ): void {
    const samples = [...(seen?.families.values() ?? [])].flatMap(({ samples }) => samples);
    for (let minute = 0; minute < minutes; minute++) {
      this.#set('up', target, seen === undefined ? 0 : 1);
      for (const { name, labels, value } of samples) {
        this.#set(
          name,
          { ...labels, ...target },
          name === growing?.name ? value + (growing.minutes + minute) * 60 : value,
        );
      }
      this.#minutes++;
    }
  }

  /** For so many minutes Prometheus knew of no driver: its pod was gone. */
  isAway(minutes: number): void {
    this.#minutes += minutes;
  }

  /** Now these alerts fire, and no others. */
  expect(...expected: readonly Firing[]): void {
    this.#expectations.push({ minute: this.#minutes - 1, firing: expected });
  }

  /** Has promtool find out. Empty if all is as expected; else its words. */
  differences(): string {
    const test: RulesTest = {
      interval: '1m',
      input_series: [...this.#series].map(([series, values]) => ({ series, values: this.#written(values) })),
      promql_expr_test: this.#expectations.map(({ firing: expected, minute }) => ({
        expr: firing,
        eval_time: `${minute}m`,
        exp_samples: expected.map((labels) => ({ labels: labelsOf(labels), value: 1 })),
      })),
    };
    const { status, said } = testRules([test]);
    return status === 0 ? '' : said;
  }

  #set(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    const key = name + labelsOf(labels);
    const values = this.#series.get(key) ?? [];
    values[this.#minutes] = value;
    this.#series.set(key, values);
  }

  /** In promtool's notation. A series that a scrape does not find any more is stale from then on. */
  #written(values: readonly (number | undefined)[]): string {
    return Array.from({ length: this.#minutes }, (_, minute) => {
      const value = values[minute];
      if (value !== undefined) return value.toFixed(6);
      return minute > 0 && values[minute - 1] !== undefined ? 'stale' : '_';
    }).join(' ');
  }
}

function labelsOf(labels: object): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `{${pairs.join(', ')}}`;
}
