import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Taint, taintsWith } from './taints.ts';

const key = 'holdfast.csi.dev/quarantine';
const own: Taint = { key, effect: 'NoSchedule' };
const preferred: Taint = { key, effect: 'PreferNoSchedule' };
// Kubernetes adds two with one key.
const others: Taint[] = [
  { key: 'node.kubernetes.io/unreachable', effect: 'NoSchedule', timeAdded: '2026-01-01T00:00:00Z' },
  { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' },
  { key: 'holdfast.csi.dev/quarantine2', effect: 'NoSchedule', value: 'mine' },
];

const table: [string, readonly Taint[], 'NoSchedule' | undefined, readonly Taint[] | undefined][] = [
  ['a taint goes beside the others', others, 'NoSchedule', [...others, own]],
  ['the first one', [], 'NoSchedule', [own]],
  ['one that is there', [own, ...others], 'NoSchedule', undefined],
  ['one with another effect', [preferred, ...others], 'NoSchedule', [...others, own]],
  ['only ours goes', [own, ...others, preferred], undefined, others],
  ['the last one goes', [own], undefined, []],
  ['where there is none of ours nothing is changed', others, undefined, undefined],
];

for (const [what, before, effect, after] of table) {
  test(what, () => assert.deepEqual(taintsWith(before, key, effect), after));
}
