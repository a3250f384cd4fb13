import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type, typeOfPage } from '../harness/fleet/terminal.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const page = 'docs/node-loss.md';

fleetTest(
  'a node is gone for good: the runbook ends what waits for it; back after all, it has its data',
  async (namespace) => {
    const { driver, kubectl } = fleet();
    // The harder one: a replica of the controller goes with it.
    const [replica] = await driver.controllers();
    assert.ok(replica);
    const { node } = replica;
    await namespace.apply(
      ...['bound', 'released'].map((name) => claim(name)),
      ...['bound', 'released'].map((name) =>
        pod(name, { volumes: { data: name }, node: node.name, script: 'echo kept > /data/file; sync /data/file' }),
      ),
    );
    await namespace.running('bound', 'released');
    const [bound, released] = [await namespace.volumeOf('bound'), await namespace.volumeOf('released')];
    assert.match(await driver.holdfast(node.name, 'volumes'), new RegExp(`^${bound.handle} `, 'm'));

    await node.losePower();
    // Until Kubernetes has noticed, kubectl exec may take the replica of the controller that is there no more.
    await namespace.wait('--for=condition=Ready=Unknown', `node/${node.name}`);
    await driver.run(['wait', '--for=condition=Ready=False', '--timeout=60s', `pod/${replica.pod}`]);
    await namespace.run(['delete', 'pod/bound', 'pod/released', '--force', '--grace-period=0']);
    await namespace.remove('pvc/released');
    await namespace.wait('--for=jsonpath={.status.phase}=Released', `pv/${released.name}`);

    await typeOfPage(page, /delete node/, { NAME: node.name });
    const shown = await typeOfPage(page, /--dry-run/, { NAME: node.name });
    assert.match(shown, new RegExp(`^${bound.name} +${namespace.name}/bound +Bound +Delete `, 'm'));
    assert.match(shown, new RegExp(`^${released.name} +${namespace.name}/released +Released +Delete `, 'm'));
    const forgotten = await typeOfPage(page, /forget-node NAME/, { NAME: node.name });
    assert.match(forgotten, /is forgotten/);
    await namespace.wait('--for=delete', `pv/${released.name}`);
    await namespace.wait('--for=jsonpath={.status.phase}=Bound', `pv/${bound.name}`);
    await namespace.remove('pvc/bound');
    await namespace.wait('--for=delete', `pv/${bound.name}`);

    await node.powerUp();
    await kubectl.run(['wait', '--for=create', '--timeout=120s', `node/${node.name}`]);
    await namespace.wait('--for=condition=Ready', `node/${node.name}`);
    await waitFor('the driver there to tell why it has no link', async () => {
      assert.match(await driver.log(node.name), /was forgotten/);
    });
    assert.deepEqual(node.volumes().sort(), [bound.handle, released.handle].sort());
    await typeOfPage(page, /--undo/, { NAME: node.name });
    await driver.ready();
    await driver.linked();
    assert.match(
      (await type('kubectl holdfast volumes --wait 60')).stdout,
      new RegExp(`^${node.name} .*${bound.handle}`, 'm'),
    );

    for (const name of ['bound', 'released']) {
      const claimed = `${namespace.name}/${name}`;
      const exporting = `kubectl holdfast export ${claimed} --storage-class holdfast --reclaim-policy Delete --wait 60`;
      const { status, stderr } = await type(`${exporting} | kubectl create --validate=strict -f -`);
      assert.equal(status, 0, stderr);
    }
    await namespace.apply(...['bound', 'released'].map((name) => claim(name)));
    // The scheduler is not to decide before it knows where they are.
    await namespace.bound('bound', 'released');
    await namespace.apply(...['bound', 'released'].map((name) => pod(name, { volumes: { data: name } })));
    await namespace.running('bound', 'released');
    for (const name of ['bound', 'released']) {
      assert.equal(await namespace.field(`pod/${name}`, '.spec.nodeName'), node.name);
      assert.equal(await namespace.exec(name, 'cat /data/file'), 'kept');
    }
  },
);
