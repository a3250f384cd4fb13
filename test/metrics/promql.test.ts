import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mentionedIn } from './promql.ts';

test('an expression is taken apart into metrics and labels', () => {
  const expression = `histogram_quantile(0.9, sum by (pool, le) (rate(a_bucket{pool=~"x{y}", node!="by (z)"}[5m])))
    > 1 and on (instance) b == bool 1 or vector(0)`;
  assert.deepEqual(mentionedIn(expression), {
    metrics: [
      { metric: 'a_bucket', labels: ['pool', 'node'] },
      { metric: 'b', labels: [] },
    ],
    listed: ['pool', 'le', 'instance'],
  });
});
