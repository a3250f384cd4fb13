import { describe, test } from 'node:test';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { encryptedOperations } from '../luks/encrypted-operations.ts';
import { prepare, succeedsInGuest, withMachine } from '../luks/guest.ts';
import { succeedsInMemory } from '../lvm/guest.ts';
import { operations } from '../lvm/operations.ts';

const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? 1);

/** Each by itself: with the kills after all of its steps it takes minutes. */
const killed = { ...operations, ...encryptedOperations };

describe('encrypted logical volumes, of a driver that is killed', () => {
  for (const operation of Object.keys(killed)) {
    test(`T03: after each step: ${operation}`, async (t) => {
      t.diagnostic(await succeedsInMemory('crash-in-guest.mjs', 'encrypted', `'${operation}'`));
    });
  }
});

describe('encryption with LUKS, cut short', () => {
  test('T01 T04: kill -9 at each step of its own leaves nothing, and the call can be made again', async (t) => {
    await withMachine({}, async (vm) => {
      t.diagnostic((await succeedsInGuest(vm, 'crash-in-guest', '/xfs/crash')).trim().split('\n').at(-1) ?? '');
    });
  });

  test('T05: power cuts take nothing of what was answered or synced', async (t) => {
    t.diagnostic(`HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
    await withMachine({}, async (vm) => {
      const random = new SeededRandom(seed);
      for (const count of ['1', '2', '3']) {
        await succeedsInGuest(vm, 'power-in-guest', '/xfs/power', 'make', count);
        await vm.cutPower(random);
        await vm.boot();
        await prepare(vm);
        await succeedsInGuest(vm, 'power-in-guest', '/xfs/power', 'look', count);
      }
    });
  });
});
