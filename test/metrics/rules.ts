import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { findPromtool } from '../support/promtool.ts';
import { Scratch } from '../support/scratch.ts';

const rule = z.looseObject({ alert: z.string() });
const rules = z.object({
  spec: z.looseObject({ groups: z.array(z.looseObject({ rules: z.array(rule) })) }),
});
type Rules = z.infer<typeof rules>['spec'];

/** The rules in a file of this repository. */
export function rulesIn(path: string): Rules {
  const file = fileURLToPath(new URL(`../../${path}`, import.meta.url));
  return rules.parse(parse(readFileSync(file, 'utf8'))).spec;
}

/** Their alerts, in their order. */
export function alertsOf(spec: Rules): string[] {
  return spec.groups.flatMap((group) => group.rules.map(({ alert }) => alert));
}

const ofNodes = rulesIn('deploy/monitoring/alerts.yaml');

/** The alerts of deploy/monitoring, in their order. */
export const alertNames: readonly string[] = alertsOf(ofNodes);

/** One of promtool's tests of rules: what was scraped, and what has to follow. */
export interface RulesTest {
  readonly interval: '1m';
  readonly input_series: readonly { readonly series: string; readonly values: string }[];
  readonly promql_expr_test: readonly {
    readonly expr: string;
    readonly eval_time: string;
    readonly exp_samples: readonly { readonly labels: string; readonly value: number }[];
  }[];
}

/** What promtool is to be told: a series, and its value each minute. */
export type SeriesValues = Readonly<Record<string, string>>;

/** After an hour each sickness has raised the alert of its name, and no other; health none. */
export function sicknessTests(healthy: SeriesValues, sicknesses: Readonly<Record<string, SeriesValues>>): RulesTest[] {
  return [['', {}] as const, ...Object.entries(sicknesses)].map(([alert, changes]) => ({
    interval: '1m',
    input_series: Object.entries({ ...healthy, ...changes }).map(([series, values]) => ({ series, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '1h',
        exp_samples: alert === '' ? [] : [{ labels: `{alertname="${alert}"}`, value: 1 }],
      },
    ],
  }));
}

/** Has promtool run them; what it says, and its exit code. */
export function testRules(
  tests: readonly RulesTest[],
  spec = ofNodes,
): { readonly status: number | null; readonly said: string } {
  using scratch = new Scratch('alerts');
  writeFileSync(scratch.join('alerts.yaml'), JSON.stringify(spec));
  const suite = { rule_files: ['alerts.yaml'], evaluation_interval: '1m', tests };
  writeFileSync(scratch.join('test.yaml'), JSON.stringify(suite));
  const { status, stdout, stderr } = spawnSync(findPromtool(), ['test', 'rules', scratch.join('test.yaml')], {
    encoding: 'utf8',
  });
  return { status, said: `${stdout}${stderr}` };
}
