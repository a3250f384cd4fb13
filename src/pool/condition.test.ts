import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { volumeIdFor } from '../volume/id.ts';
import { conditionsIn, silentCondition } from './condition.ts';
import type { Condition, Pool } from './pool.ts';

const healthy: Condition = { abnormal: false, message: 'healthy' };
const ids = (count: number) => Array.from({ length: count }, (_, at) => volumeIdFor('node', 'pool', `v${at}`));
const asPool = (condition: Pool['condition']) => ({ condition }) as Pool;

describe('conditions of many volumes', () => {
  test('none is silent because it waits for its turn in a slow pool', async () => {
    let turn = Promise.resolve();
    const slow = asPool(async () => {
      turn = turn.then(() => delay(5));
      await turn;
      return healthy;
    });
    const conditions = await conditionsIn(
      ids(200).map((id) => ({ pool: slow, id })),
      200,
    );
    assert.deepEqual([...new Set(conditions)], [healthy]);
  });

  test('a pool that does not answer is waited for once, and others are not called silent for it', async () => {
    let asked = 0;
    const silent = asPool(() => {
      asked++;
      return new Promise(() => undefined);
    });
    const well = asPool(async () => healthy);
    const volumes = ids(100).flatMap((id) => [silent, well].map((pool) => ({ pool, id })));
    const conditions = await conditionsIn(volumes, 50);
    assert.deepEqual(
      conditions,
      volumes.map(({ pool }) => (pool === silent ? silentCondition : healthy)),
    );
    assert.ok(asked < 10, `${asked} were asked for`);
  });

  test('a volume whose own file hangs is silent, and no other one of its pool', async () => {
    const [hung, ...others] = ids(30);
    const pool = asPool(async (id) => (id === hung ? new Promise(() => undefined) : healthy));
    const conditions = await conditionsIn(
      [hung ?? assert.fail(), ...others].map((id) => ({ pool, id })),
      50,
    );
    assert.deepEqual(conditions, [silentCondition, ...others.map(() => healthy)]);
  });
});
