import assert from 'node:assert/strict';
import { fleetShapes } from '../../../src/cli/fleet/shapes.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { driverIsReady, MovingSet, turnMovesOn, turnSnapshotsOn } from '../harness/fleet/moving-set.ts';
import { type, typeAll } from '../harness/fleet/terminal.ts';
import type { Namespace } from '../harness/namespace.ts';
import { claim, fromSnapshot, pod, snapshot } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

/** A snapshot of the claim of the set. @returns the id that the driver has given it */
async function taken(namespace: Namespace, name: string): Promise<string> {
  await namespace.apply(snapshot(name, 'data-set-0'));
  await namespace.wait('--for=jsonpath={.status.readyToUse}=true', `volumesnapshot/${name}`);
  const content = await namespace.field(`volumesnapshot/${name}`, '.status.boundVolumeSnapshotContentName');
  return namespace.field(`volumesnapshotcontent/${content}`, '.status.snapshotHandle');
}

/** Waits until these are on that node, each once. */
async function requireAt(node: string, ids: readonly string[]): Promise<void> {
  await waitFor(`the snapshots to be on ${node}`, async () => {
    const { stderr, stdout } = await type('kubectl holdfast snapshots -o json');
    const { snapshots } = fleetShapes.snapshots.parse(JSON.parse(stdout));
    const found = snapshots.filter(({ id }) => ids.includes(id)).map(({ id, node: its }) => `${id} on ${its}`);
    assert.deepEqual(found.sort(), ids.map((id) => `${id} on ${node}`).sort(), stderr);
  });
}

/** A volume that is made of a snapshot has these lines, and no more. */
async function requireRestored(namespace: Namespace, name: string, node: string, lines: number): Promise<void> {
  const copy = `${name}-on-${node}`;
  const source = claim(copy, { dataSource: fromSnapshot(name) });
  await namespace.apply(source, pod(copy, { volumes: { data: copy }, node }));
  await namespace.running(copy);
  const found = (await namespace.exec(copy, 'cat /data/log')).split('\n').filter((line) => line !== '');
  assert.ok(found.length >= lines, `${found.length} of ${lines} lines`);
  assert.deepEqual(
    found.slice(0, lines).map(Number),
    Array.from({ length: lines }, (_, index) => index + 1),
  );
  await namespace.remove(`pod/${copy}`);
  await namespace.remove(`pvc/${copy}`);
}

fleetTest(
  'the snapshots of a claim follow it to another node and back, under a writer, are restored there, and are deleted',
  async (namespace) => {
    await typeAll([turnMovesOn, turnSnapshotsOn, driverIsReady]);
    const set = await MovingSet.start(namespace);
    const early = await set.written(20);
    const older = await taken(namespace, 'older');
    const late = await set.written(early + 20);
    const newer = await taken(namespace, 'newer');
    for (const node of [set.other, set.first]) {
      await set.move(node, '--with-snapshots');
      await requireAt(node, [older, newer]);
      await requireRestored(namespace, 'older', node, early);
      await requireRestored(namespace, 'newer', node, late);
      await set.requireLines('/data/log', await set.written(0));
    }
    await set.move(set.other, '--with-snapshots');
    // One of them is deleted, maybe on its way.
    await namespace.remove('volumesnapshot/newer');
    await requireAt(set.other, [older]);
    await namespace.remove('volumesnapshot/older');
    await requireAt(set.other, []);
    await set.purge();
  },
  { timeoutMs: 1_200_000 },
);
