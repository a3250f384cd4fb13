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
    await set.moveBackAndForth(10);
    await set.purge();
  },
);

fleetTest(
  'where a PersistentVolume may be changed, it is the same one after five moves there and back',
  async (namespace) => {
    await fleet().withFeatures(['MutablePVNodeAffinity'], async () => {
      await typeAll([turnMovesOn, driverIsReady]);
      const set = await MovingSet.start(namespace);
      const before = await namespace.volumeOf('data-set-0');
      await set.moveBackAndForth(5);
      assert.deepEqual(await namespace.volumeOf('data-set-0'), before);
      await set.purge();
    });
  },
);
