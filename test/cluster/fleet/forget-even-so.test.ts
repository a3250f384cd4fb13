import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { commandOfPage, type, typeOfPage } from '../harness/fleet/terminal.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const page = 'docs/node-loss.md';

fleetTest(
  '--even-so forgets a node whose Node is there; its bound claims are used again once it is back',
  async (namespace) => {
    const { driver } = fleet();
    // One without a replica of the controller, where there is one.
    const replicas = await driver.controllers();
    const node = fleet().nodes.find(({ name }) => replicas.every((replica) => replica.node.name !== name));
    assert.ok(node, 'two replicas are on three nodes');
    await namespace.apply(
      ...['kept', 'released'].map((name) => claim(name)),
      ...['kept', 'released'].map((name) =>
        pod(name, { volumes: { data: name }, node: node.name, script: 'echo kept > /data/file; sync /data/file' }),
      ),
    );
    await namespace.running('kept', 'released');
    const [kept, released] = [await namespace.volumeOf('kept'), await namespace.volumeOf('released')];

    await node.losePower();
    await namespace.wait('--for=condition=Ready=Unknown', `node/${node.name}`);
    await namespace.run(['delete', 'pod/kept', 'pod/released', '--force', '--grace-period=0']);
    await namespace.remove('pvc/released');
    await namespace.wait('--for=jsonpath={.status.phase}=Released', `pv/${released.name}`);

    const refused = await type(commandOfPage(page, /forget-node NAME/, { NAME: node.name }));
    assert.notEqual(refused.status, 0);
    assert.match(refused.stderr, /is still there: kubectl delete node .*; or add --even-so/);
    assert.match(await typeOfPage(page, /--even-so/, { NAME: node.name }), /is forgotten/);
    await namespace.wait('--for=delete', `pv/${released.name}`);
    await namespace.wait('--for=jsonpath={.status.phase}=Bound', 'pvc/kept');

    await node.powerUp();
    await namespace.wait('--for=condition=Ready', `node/${node.name}`);
    await waitFor('the driver there to tell why it has no link', async () => {
      assert.match(await driver.log(node.name), /was forgotten/);
    });
    assert.deepEqual(node.volumes().sort(), [kept.handle, released.handle].sort());
    await typeOfPage(page, /--undo/, { NAME: node.name });
    await driver.ready();
    await driver.linked();
    await namespace.apply(pod('again', { volumes: { data: 'kept' } }));
    await namespace.running('again');
    assert.equal(await namespace.exec('again', 'cat /data/file'), 'kept');

    // Nothing deletes the other one by itself; it is brought back, and goes with the namespace.
    const exporting = `kubectl holdfast export ${namespace.name}/released --storage-class holdfast --reclaim-policy Delete --wait 60`;
    const { status, stderr } = await type(`${exporting} | kubectl create --validate=strict -f -`);
    assert.equal(status, 0, stderr);
    await namespace.apply(claim('released'));
    await namespace.bound('released');
    await namespace.apply(pod('reader', { volumes: { data: 'released' } }));
    await namespace.running('reader');
    assert.equal(await namespace.exec('reader', 'cat /data/file'), 'kept');
  },
);
