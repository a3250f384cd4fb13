import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallError } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { LinkedNode, volumeOn } from './support/fleet.ts';

const selectedNode = 'volume.kubernetes.io/selected-node';
const parameters = { 'csi.storage.k8s.io/pvc/namespace': 'default', 'csi.storage.k8s.io/pvc/name': 'copy' };

/** What the scheduler and the provisioner do with such a claim afterwards, test/cluster/fleet shows. */
test('CV29: the claim of a copy is sent to the node of its source, and no other claim is', async () => {
  using scratch = new Scratch('sent-claims');
  await using api = await ApiDouble.start();
  for (const name of ['node-a', 'node-b']) api.known.csiNodes.add(name);
  const start = (name: string, environment: Record<string, string>) =>
    ControllerProcess.start(scratch, api, name, undefined, environment);
  await using sending = await start('sending', { HOLDFAST_SEND_COPIES: 'true' });
  await using quiet = await start('quiet', {});
  await using a = await LinkedNode.start(api, 'node-a', [sending, quiet]);
  await using _b = await LinkedNode.start(api, 'node-b', [sending, quiet]);
  for (const node of ['node-a', 'node-b'])
    await Promise.all([sending, quiet].map((each) => each.logged('inventory complete', { node })));
  using client = sending.connect();
  using quietClient = quiet.connect();
  const { volume } = await client.controller.CreateVolume(volumeOn('node-a', 'pvc-source'));
  const volume_id = volume?.volume_id ?? '';
  // The other replica hears of it from the node.
  await eventually(async () => void (await quietClient.controller.ControllerGetVolume({ volume_id })));
  const volume_content_source = { volume: { volume_id } };
  const request = { ...volumeOn('node-b', 'pvc-1234'), volume_content_source, parameters };
  const waiting = {
    metadata: {
      ...{
        name: 'copy',
        namespace: 'default',
        uid: '1234',
        resourceVersion: '7',
        finalizers: ['kubernetes.io/pvc-protection'],
      },
      annotations: { [selectedNode]: 'node-b', 'example.org/own': 'stays' },
    },
    spec: { storageClassName: 'holdfast', somethingNew: { in: 'Kubernetes' } },
    status: { phase: 'Pending' },
  };
  const claims = api.known.claims;
  const copyTo = async (one: typeof client, claim: object | undefined) => {
    claims.clear();
    if (claim !== undefined) claims.set('default/copy', { ...claim });
    await assert.rejects(one.controller.CreateVolume(request), (error: unknown) => {
      assert.ok(error instanceof CallError);
      assert.equal(error.code, 'RESOURCE_EXHAUSTED');
      assert.match(error.message, /is on node-a, and a volume made from it must be on the same node/);
      return true;
    });
    return claims.get('default/copy');
  };

  const sent = {
    ...waiting,
    metadata: {
      ...waiting.metadata,
      resourceVersion: '8',
      annotations: { ...waiting.metadata.annotations, [selectedNode]: 'node-a' },
    },
  };
  assert.deepEqual(await copyTo(client, waiting), sent, 'nothing else in it changes');
  await sending.logged('sent a claim to the node of its source', { claim: 'default/copy', node: 'node-a' });

  const left: [string, object | undefined][] = [
    ['it is sent there already', sent],
    ['it waits for nobody', { ...waiting, metadata: { ...waiting.metadata, annotations: {} } }],
    ['it is a new one of the same name', { ...waiting, metadata: { ...waiting.metadata, uid: '5678' } }],
    ['it has a volume', { ...waiting, spec: { ...waiting.spec, volumeName: 'pvc-1234' } }],
    ['it is gone', undefined],
  ];
  for (const [why, claim] of left) assert.deepEqual(await copyTo(client, claim), claim, why);
  assert.deepEqual(await copyTo(quietClient, waiting), waiting, 'the option is off');

  api.known.refused.add('/persistentvolumeclaims/copy');
  assert.deepEqual(await copyTo(client, waiting), waiting);
  await sending.logged('cannot send a claim to the node of its source', { claim: 'default/copy' });

  api.known.refused.clear();
  await a.driver.stop();
  await sending.logged('a link has ended', { node: 'node-a' });
  assert.deepEqual(await copyTo(client, waiting), waiting, 'the node of the source is away');
});
