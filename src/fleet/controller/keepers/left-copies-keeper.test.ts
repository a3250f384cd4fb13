import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { tell } from '../../../../test/fleet/support/told-fleet.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { volumeIdFor } from '../../../volume/id.ts';
import { FleetState } from '../fleet-state.ts';
import { LeftCopiesKeeper } from './left-copies-keeper.ts';

const id = volumeIdFor('a', 'data', 'data');

/** Node a has handed the volume over to node b, which has it in generation 1. */
function keeperOf(state: FleetState) {
  const settled: string[] = [];
  const keeper = new LeftCopiesKeeper({
    state,
    moves: {
      copyAt: async () => ({ generation: 1, isVolume: true }),
      async settle(source, { generation, node, volumeId }) {
        if (source !== 'a') throw new FailedPrecondition('it was not handed over.');
        settled.push(`${volumeId} of ${source}: ${generation} is on ${node}`);
      },
    },
    log: pino({ level: 'silent' }),
  });
  return { keeper, settled };
}

test('a volume that two nodes have for longer than a moment is settled where it was handed over', async () => {
  const state = new FleetState();
  state.expect(['a', 'b', 'c']);
  tell(state, 'a', [id, volumeIdFor('a', 'data', 'other')]);
  tell(state, 'b', [id]);
  const { keeper, settled } = keeperOf(state);
  await keeper.look();
  assert.deepEqual(settled, []);
  await keeper.look();
  assert.deepEqual(settled, [`${id} of a: 1 is on b`]);
});

test('a volume that one of two nodes has, or that is away with one of them, is left alone', async () => {
  const state = new FleetState();
  state.expect(['a', 'b']);
  tell(state, 'a', [id]);
  tell(state, 'b', []);
  const { keeper, settled } = keeperOf(state);
  for (let look = 0; look < 3; look++) await keeper.look();
  tell(state, 'b', [id]);
  await keeper.look();
  state.away('b');
  await keeper.look();
  assert.deepEqual(settled, []);
});

test('a node that does not answer delays no volume of others', async () => {
  const state = new FleetState();
  const far = volumeIdFor('c', 'data', 'data');
  state.expect(['a', 'b', 'c', 'd']);
  tell(state, 'c', [far]);
  tell(state, 'd', [far]);
  tell(state, 'a', [id]);
  tell(state, 'b', [id]);
  const settled = Promise.withResolvers<string>();
  const keeper = new LeftCopiesKeeper({
    state,
    moves: {
      copyAt: (node) =>
        'cd'.includes(node) ? new Promise(() => undefined) : Promise.resolve({ generation: 1, isVolume: true }),
      settle: async (_, { volumeId }) => settled.resolve(volumeId),
    },
    log: pino({ level: 'silent' }),
  });
  await keeper.look();
  void keeper.look();
  assert.equal(await settled.promise, id);
});

test('two copies of which none was handed over are an error in the log, once until one of them is gone', async () => {
  const state = new FleetState();
  state.expect(['a', 'b']);
  tell(state, 'a', [id]);
  tell(state, 'b', [id]);
  const lines: Record<string, unknown>[] = [];
  const keeper = new LeftCopiesKeeper({
    state,
    moves: {
      copyAt: async (node) => ({ generation: node === 'a' ? 0 : 1, isVolume: true }),
      settle: async () => {
        throw new FailedPrecondition('it was not handed over.');
      },
    },
    log: pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
  });
  const looks = async (count: number) => {
    for (let look = 0; look < count; look++) await keeper.look();
    return lines.map(({ level, nodes, volume_id }) => [level, volume_id, nodes]);
  };
  const error = [50, id, ['a', 'b']];
  assert.deepEqual(await looks(3), [error]);
  tell(state, 'a', []);
  await looks(1);
  tell(state, 'a', [id]);
  assert.deepEqual(await looks(3), [error, error]);
});
