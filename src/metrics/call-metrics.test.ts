import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { callBegan, callEnded } from '../csi/call-events.ts';
import { CallMetrics } from './call-metrics.ts';

test('the oldest call is the one that began first, and then the next', async (t) => {
  const registry = new Registry();
  const metrics = new CallMetrics(registry);
  let nowMs = 10_000;
  t.mock.method(performance, 'now', () => nowMs);
  const oldest = async () => {
    metrics.collect();
    const seen = await registry.getSingleMetric('holdfast_csi_oldest_call_seconds')?.get();
    return seen?.values[0]?.value;
  };
  const calls = ['CreateVolume', 'DeleteVolume', 'NodeStageVolume'].map((rpc) => ({ call: {}, rpc }));
  for (const each of calls) {
    callBegan.publish(each);
    nowMs += 1000;
  }
  assert.equal(await oldest(), 3);
  for (const [index, each] of calls.entries()) {
    callEnded.publish({ ...each, code: 'OK', ms: 1 });
    assert.equal(await oldest(), Math.max(2 - index, 0));
  }
});
