import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Exposition } from '../support/exposition.ts';
import { exposeEverything } from './exposed.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/metrics.md', import.meta.url)), 'utf8');

/** Metric -> labels, from the rows of the table. */
const documented = new Map<string, string[]>();
for (const [, names = '', labels = ''] of page.matchAll(/^\|([^|]*`[a-z_]+`[^|]*)\|([^|]*)\|/gm)) {
  for (const name of quoted(names)) documented.set(name, quoted(labels));
}

function quoted(cell: string): string[] {
  return Array.from(cell.matchAll(/`([a-z_]+)`/g), ([, word = '']) => word);
}

let exposed: Exposition;
before(async () => {
  exposed = new Exposition(await exposeEverything());
});

describe('docs/metrics.md', () => {
  test('has every metric that a driver exposes, and no other', () => {
    assert.deepEqual([...documented.keys()].sort(), [...exposed.families.keys()].sort());
  });

  test('has the labels of each', () => {
    for (const [name, { samples }] of exposed.families) {
      const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)));
      labels.delete('le');
      assert.deepEqual(documented.get(name), [...labels], name);
    }
  });

  test('has every value of the labels that are lists of ours', () => {
    for (const [metric, label] of [
      ['holdfast_pool_state', 'state'],
      ['holdfast_reconciled_total', 'what'],
    ] as const) {
      for (const { labels } of exposed.find(metric))
        assert.ok(page.includes(`\`${labels[label]}\``), `${labels[label]}`);
    }
  });
});
