import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { makeImmediateClass } from '../harness/fleet/classes.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { claim, pod } from '../harness/objects.ts';

fleetTest('a VolumeAttributesClass makes volumes of two nodes thick', async (namespace) => {
  const names = ['node-a', 'node-c'];
  await namespace.apply(
    ...names.map((name) => claim(name, { size: '64Mi' })),
    ...names.map((name) => pod(name, { volumes: { data: name }, node: name })),
  );
  await namespace.running(...names);
  for (const name of names) {
    const { handle } = await namespace.volumeOf(name);
    const image = join(fleet().node(name).dataDirectory, 'pools', 'default', 'volumes', handle, 'data');
    const allocatedBytes = () => statSync(image).blocks * 512;
    assert.ok(allocatedBytes() < 32 * 2 ** 20);
    const patch = JSON.stringify({ spec: { volumeAttributesClassName: 'holdfast-thick' } });
    await namespace.run(['patch', `pvc/${name}`, '--patch', patch]);
    await namespace.wait('--for=jsonpath={.status.currentVolumeAttributesClassName}=holdfast-thick', `pvc/${name}`);
    assert.ok(allocatedBytes() >= 64 * 2 ** 20);
  }
});

fleetTest('a claim without a pod grows, and its next pod has the size', async (namespace) => {
  await using immediate = await makeImmediateClass(namespace);
  await namespace.apply(claim('data', { storageClass: immediate.name }));
  await namespace.bound('data');
  const patch = { spec: { resources: { requests: { storage: '600Mi' } } } };
  await namespace.run(['patch', 'pvc/data', '--patch', JSON.stringify(patch)]);
  const { name } = await namespace.volumeOf('data');
  await namespace.wait('--for=jsonpath={.spec.capacity.storage}=600Mi', `pv/${name}`);
  await namespace.apply(pod('user', { volumes: { data: 'data' } }));
  await namespace.running('user');
  await namespace.wait('--for=jsonpath={.status.capacity.storage}=600Mi', 'pvc/data');
  assert.ok(Number(await namespace.exec('user', "df -m /data | awk 'END { print $2 }'")) > 450);
});
