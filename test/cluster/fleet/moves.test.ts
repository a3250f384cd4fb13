import assert from 'node:assert/strict';
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
    let acknowledged = 0;
    for (let at = 0; at < 20; at++) {
      const to = at % 2 === 0 ? set.other : set.first;
      acknowledged = await set.written(acknowledged + 20);
      await set.move(to);
      await set.requireLines('/data/log', acknowledged);
      assert.deepEqual(fleet().nodesWith(set.handle), [to]);
      const { name } = await namespace.volumeOf('data-set-0');
      const path = 'jsonpath={.spec.nodeAffinity} {.spec.persistentVolumeReclaimPolicy}';
      assert.match(await namespace.run(['get', 'pv', name, '-o', path]), new RegExp(`"${to}".* Delete$`));
    }
    await set.purge();
  },
);
