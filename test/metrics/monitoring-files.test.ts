import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { Exposition } from '../support/exposition.ts';
import { findPromtool } from '../support/promtool.ts';
import { Scratch } from '../support/scratch.ts';
import { exposeEverything } from './exposed.ts';
import { mentionedIn } from './promql.ts';

const fileAt = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

const rule = z.object({ alert: z.string(), expr: z.string(), annotations: z.record(z.string(), z.string()) });
const rules = z
  .object({ spec: z.object({ groups: z.array(z.looseObject({ rules: z.array(rule) })) }) })
  .parse(parse(fileAt('deploy/monitoring/alerts.yaml')));
const panel = z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })).default([]) });
const variable = z.object({ name: z.string(), definition: z.string().optional() });
const dashboard = z
  .object({ panels: z.array(panel), templating: z.object({ list: z.array(variable) }) })
  .parse(JSON.parse(fileAt('deploy/monitoring/dashboard.json')));

/** Labels that a scrape adds: Prometheus, its operator, and our PodMonitor. `le` is every histogram's. */
const targetLabels = ['job', 'instance', 'node', 'namespace', 'pod', 'le'];

const alerts = rules.spec.groups.flatMap((group) => group.rules);
const expressions = [
  ...alerts.map(({ alert, expr }) => ({ where: alert, expr })),
  ...dashboard.panels.flatMap(({ targets, title }) => targets.map(({ expr }) => ({ where: title, expr }))),
].map(({ expr, where }) => ({ where, expr: expr.replaceAll('$__rate_interval', '5m') }));

let text: string;
let exposed: Exposition;
before(async () => {
  text = await exposeEverything();
  exposed = new Exposition(text);
});

/** The labels that the metric's samples have. */
function labelsOf(metric: string): string[] {
  return [...new Set(exposed.find(metric).flatMap(({ labels }) => Object.keys(labels)))];
}

describe('deploy/monitoring', () => {
  for (const { expr, where } of expressions) {
    test(`${where}: what it names a driver exposes`, () => {
      const { listed, metrics } = mentionedIn(expr);
      assert.ok(metrics.length > 0);
      const known = new Set(targetLabels);
      for (const { labels, metric } of metrics) {
        if (metric === 'up') continue;
        assert.ok(exposed.find(metric).length > 0, `${metric} has no sample`);
        const own = labelsOf(metric);
        for (const label of own) known.add(label);
        for (const label of labels) assert.ok([...own, ...targetLabels].includes(label), `${metric} has no ${label}`);
      }
      for (const label of listed) assert.ok(known.has(label), `nothing there has a label ${label}`);
    });
  }

  test('the labels in the words of an alert are those of its expression', () => {
    for (const { alert, annotations, expr } of alerts) {
      const own = mentionedIn(expr).metrics.flatMap(({ metric }) => (metric === 'up' ? [] : labelsOf(metric)));
      for (const [, label = ''] of Object.values(annotations)
        .join()
        .matchAll(/\$labels\.(\w+)/g)) {
        assert.ok([...own, ...targetLabels].includes(label), `${alert} has no ${label}`);
      }
    }
  });

  test('the variables of the dashboard are made from metrics that there are', () => {
    for (const { definition, name } of dashboard.templating.list) {
      if (definition === undefined) continue;
      const [, metric = '', label = ''] = /^label_values\((\w+)(?:\{.*\})?, (\w+)\)$/.exec(definition) ?? [];
      assert.ok([...labelsOf(metric), ...targetLabels].includes(label), name);
    }
  });

  test('promtool finds nothing wrong with the rules, the expressions of the dashboard, and what is exposed', () => {
    using scratch = new Scratch('promtool');
    const promtool = findPromtool();
    const check = (name: string, groups: unknown) => {
      writeFileSync(scratch.join(name), JSON.stringify({ groups }));
      execFileSync(promtool, ['check', 'rules', '--lint-fatal', scratch.join(name)], { encoding: 'utf8' });
    };
    check('alerts.yaml', rules.spec.groups);
    const recorded = expressions.map(({ expr }, index) => ({ record: `expression:${index}`, expr }));
    check('dashboard.yaml', [{ name: 'dashboard', rules: recorded }]);
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
    assert.deepEqual([status, stdout, stderr], [0, '', '']);
  });
});
