import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missedGoals } from '../bench/goals.ts';
import { notAskedFor } from '../bench/result.ts';

test('npm run bench -- --check fails for a goal that is missed, or that could not be measured', () => {
  const met = { name: 'a', measured: '1', met: true };
  const measured = { snapshots: { ratio: 1, frozenMs: 1 }, devices: notAskedFor } as Parameters<typeof missedGoals>[0];
  assert.deepEqual(missedGoals(measured, [met]), []);
  assert.deepEqual(missedGoals(measured, [met, { ...met, name: 'b', met: false }]), ['b: 1']);
  assert.deepEqual(missedGoals({ ...measured, snapshots: 'no fio' }, [met]), ['snapshots were not measured: no fio']);
  assert.deepEqual(missedGoals({ ...measured, devices: 'no QEMU' }, [met]), [
    'block volumes were not measured: no QEMU',
  ]);
});
