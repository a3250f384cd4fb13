import assert from 'node:assert/strict';
import { makeImmediateClass } from '../harness/fleet/classes.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { claim, pod } from '../harness/objects.ts';

fleetTest('a claim follows its pod to each of three nodes, is written, and leaves nothing', async (namespace) => {
  const names = fleet().nodes.map(({ name }) => name);
  await namespace.apply(
    ...names.map((name) => claim(name)),
    ...names.map((name) => pod(name, { volumes: { data: name }, node: name, script: 'hostname > /data/host' })),
  );
  await namespace.running(...names);
  for (const name of names) {
    assert.equal(await namespace.field(`pod/${name}`, '.spec.nodeName'), name);
    assert.equal(await namespace.exec(name, 'cat /data/host'), name);
    const { handle } = await namespace.volumeOf(name);
    assert.deepEqual(fleet().nodesWith(handle), [name]);
  }
});

fleetTest('Immediate: a claim is bound without a pod, and its pod goes where its volume is', async (namespace) => {
  await using immediate = await makeImmediateClass(namespace);
  await namespace.apply(claim('data', { storageClass: immediate.name }));
  await namespace.bound('data');
  const { handle } = await namespace.volumeOf('data');
  const [node, ...others] = fleet().nodesWith(handle);
  assert.deepEqual(others, []);
  await namespace.apply(pod('user', { volumes: { data: 'data' }, script: 'echo kept > /data/file' }));
  await namespace.running('user');
  assert.equal(await namespace.field('pod/user', '.spec.nodeName'), node);
});
