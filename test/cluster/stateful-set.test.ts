import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { statefulSet } from './harness/objects.ts';

clusterTest('a StatefulSet of three keeps the data of each while it is scaled down and up', async (namespace) => {
  const script = 'test -e /data/host || hostname > /data/host';
  await namespace.apply(statefulSet('set', { claims: { data: {} }, replicas: 3, isParallel: true, script }));
  const scaled = (replicas: number) =>
    namespace.wait(`--for=jsonpath={.status.readyReplicas}=${replicas}`, 'statefulset/set');
  await scaled(3);
  await namespace.run(['scale', 'statefulset/set', '--replicas=0']);
  await namespace.wait('--for=delete', 'pod/set-0', 'pod/set-1', 'pod/set-2');
  await namespace.run(['scale', 'statefulset/set', '--replicas=3']);
  await scaled(3);
  for (const name of ['set-0', 'set-1', 'set-2']) assert.equal(await namespace.exec(name, 'cat /data/host'), name);
});
