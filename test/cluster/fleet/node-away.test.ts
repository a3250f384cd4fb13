import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type } from '../harness/fleet/terminal.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

fleetTest('a node is cut off: others work, lists name it, and it goes on when it is back', async (namespace) => {
  const { driver } = fleet();
  // The harder one: a replica goes with it.
  const [lost] = await driver.controllers();
  assert.ok(lost);
  const { node } = lost;
  const other = fleet().nodes.find(({ name }) => name !== node.name)?.name ?? '';
  await namespace.apply(
    claim('kept'),
    claim('deleted'),
    pod('user', { volumes: { data: 'kept' }, node: node.name, script: 'date > /data/start' }),
    pod('leaver', { volumes: { data: 'deleted' }, node: node.name }),
  );
  await namespace.running('user', 'leaver');
  const deleted = await namespace.volumeOf('deleted');
  await namespace.remove('pod/leaver');

  node.uplink.block();
  try {
    const away = new RegExp(`^holdfast: node ${node.name}: it is away since \\d`, 'm');
    await waitFor('the view to say who is missing', async () => {
      const { status, stderr } = await type('kubectl holdfast volumes --wait 60');
      assert.match(stderr, away);
      assert.equal(status, 1);
    });
    for (let again = 0; again < 3; again += 1)
      assert.match((await type('kubectl holdfast pools --wait 60')).stderr, away);
    await namespace.remove('pvc/deleted');
    await namespace.apply(
      claim('other'),
      pod('other', { volumes: { data: 'other' }, node: other, script: 'echo here > /data/file' }),
    );
    await namespace.running('other');
    assert.equal(await namespace.exec('other', 'cat /data/file'), 'here');
    await namespace.remove('pod/other', 'pvc/other');
    await waitFor('the PersistentVolume to say that its node is away', async () => {
      const told = await namespace.run(['describe', `pv/${deleted.name}`]);
      assert.match(told, new RegExp(`${node.name} is away since`));
    });
    assert.deepEqual(fleet().nodesWith(deleted.handle), [node.name]);
  } finally {
    node.uplink.unblock();
  }
  await namespace.wait('--for=condition=Ready', `node/${node.name}`);
  await driver.linked();
  await namespace.wait('--for=delete', `pv/${deleted.name}`);
  assert.deepEqual(fleet().nodesWith(deleted.handle), []);
  await namespace.apply(claim('next'), pod('next', { volumes: { data: 'next' }, node: node.name }));
  await namespace.running('next');
  await waitFor('the pod there to be reached again', async () => {
    assert.match(await namespace.exec('user', 'cat /data/start'), /20\d\d/);
  });
});
