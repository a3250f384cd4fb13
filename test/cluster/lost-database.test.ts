import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { Namespace } from './harness/namespace.ts';
import { claim, pod } from './harness/objects.ts';

clusterTest('the database is lost: volumes are adopted from what holdfast export prints', async (namespace) => {
  await namespace.apply(
    claim('left'),
    claim('right', { storageClass: 'holdfast-xfs' }),
    pod('user', { volumes: { left: 'left', right: 'right' }, script: 'echo l > /left/file; echo r > /right/file' }),
  );
  await namespace.running('user');
  const volumes = [
    { ...(await namespace.volumeOf('left')), storageClass: 'holdfast' },
    { ...(await namespace.volumeOf('right')), storageClass: 'holdfast-xfs' },
  ];

  await cluster().loseDatabase();
  const { kubectl, driver } = cluster();
  for (const { handle, storageClass } of volumes) {
    const exported = await driver.holdfast(
      'export',
      handle,
      '--storage-class',
      storageClass,
      '--reclaim-policy',
      'Delete',
    );
    await kubectl.run(['create', '--validate=strict', '-f', '-'], { input: exported });
  }
  await Namespace.make(kubectl, namespace.name);
  await namespace.apply(
    claim('left'),
    claim('right', { storageClass: 'holdfast-xfs' }),
    pod('user', { volumes: { left: 'left', right: 'right' } }),
  );
  await namespace.running('user');
  assert.equal(await namespace.exec('user', 'cat /left/file /right/file'), 'l\nr');
  assert.deepEqual(
    [await namespace.volumeOf('left'), await namespace.volumeOf('right')].map(({ handle }) => handle),
    volumes.map(({ handle }) => handle),
  );
});
