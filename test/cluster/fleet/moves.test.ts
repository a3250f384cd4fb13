import assert from 'node:assert/strict';
import { median } from '../../bench/statistics.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { driverIsReady, MovingSet, turnMovesOn } from '../harness/fleet/moving-set.ts';
import { typeAll } from '../harness/fleet/terminal.ts';

fleetTest(
  'a claim of a StatefulSet moves from node to node and back ten times, and no acknowledged line is lost',
  async (namespace) => {
    await typeAll([turnMovesOn, driverIsReady]);
    const set = await MovingSet.start(namespace);
    await set.requirePlan('default');
    await set.pauseSeconds();
    const restarts: number[] = [];
    for (let count = 0; count < 5; count++) {
      await set.restart();
      restarts.push(await set.pauseSeconds());
    }
    const moves: number[] = [];
    let acknowledged = 0;
    for (let at = 0; at < 20; at++) {
      const to = at % 2 === 0 ? set.other : set.first;
      acknowledged = await set.written(acknowledged + 20);
      await set.move(to);
      await set.requireLines('/data/log', acknowledged);
      moves.push(await set.pauseSeconds());
      assert.deepEqual(fleet().nodesWith(set.handle), [to]);
      const { name } = await namespace.volumeOf('data-set-0');
      const path = 'jsonpath={.spec.nodeAffinity} {.spec.persistentVolumeReclaimPolicy}';
      assert.match(await namespace.run(['get', 'pv', name, '-o', path]), new RegExp(`"${to}".* Delete$`));
    }
    const [move, restart] = [median(moves), median(restarts)];
    console.log(`no line for ${move.toFixed(1)} s in a move, for ${restart.toFixed(1)} s in a plain restart (medians)`);
    await set.purge();
  },
);
