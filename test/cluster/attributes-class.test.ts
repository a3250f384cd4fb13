import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { claim, pod } from './harness/objects.ts';

clusterTest('a VolumeAttributesClass makes a volume in use thick, and another one thin again', async (namespace) => {
  await namespace.apply(claim('data', { size: '64Mi' }), pod('user', { volumes: { data: 'data' } }));
  await namespace.running('user');
  const { handle } = await namespace.volumeOf('data');
  const image = join(cluster().driver.dataDirectory, 'pools', 'default', 'volumes', handle, 'data');
  const allocatedBytes = () => statSync(image).blocks * 512;
  assert.ok(allocatedBytes() < 32 * 2 ** 20);
  const change = async (name: string) => {
    const patch = JSON.stringify({ spec: { volumeAttributesClassName: name } });
    await namespace.run(['patch', 'pvc/data', '--patch', patch]);
    await namespace.wait(`--for=jsonpath={.status.currentVolumeAttributesClassName}=${name}`, 'pvc/data');
  };
  await change('holdfast-thick');
  assert.ok(allocatedBytes() >= 64 * 2 ** 20);
  await change('holdfast-thin');
  assert.ok(allocatedBytes() < 32 * 2 ** 20);
});
