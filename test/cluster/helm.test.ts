import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Helm } from '../deploy/helm.ts';
import { Release } from '../deploy/release.ts';
import { chartValues, makeChart } from './harness/chart.ts';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { images } from './harness/images.ts';
import type { Namespace } from './harness/namespace.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

const settled = ['--wait', '--timeout', '180s'];

/** A number for each write, which is counted when it has reached the disk. */
const writing = `
n=0
while :; do n=$((n + 1)); echo $n >> /data/numbers; sync /data/numbers; usleep 20000; done &`;

clusterTest(
  'the chart is installed, upgraded, rolled back and removed under a pod whose I/O goes on',
  async (namespace) => {
    const { directory, driver, kubectl, runtime, server } = cluster();
    const kubeconfig = server.kubeconfig('admin');
    const chart = makeChart({
      makeDirectory: (...parts) => directory.makeDirectory(...parts),
      dataDirectory: driver.dataDirectory,
      hasPodNetwork: false,
    });
    const release = new Release({ helm: await Helm.build(), kubeconfig, chart });
    const next = images.driver.replace(':test', ':next');
    await runtime.ctr(['images', 'tag', images.driver, next]);
    await driver.uninstall();
    try {
      await kubectl.run(['apply', '-f', join(import.meta.dirname, '../../deploy/base/namespace.yaml')]);
      await release.install(chartValues(), ...settled);
      await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, script: writing }));
      await namespace.running('user');
      const { handle } = await namespace.volumeOf('data');
      const pids = [(await driver.process()).pid];
      const replaced = async () => {
        pids.push((await driver.process()).pid);
        assert.equal(new Set(pids).size, pids.length, `the driver's process is one of before: ${pids}`);
        assert.match(await driver.holdfast('volumes'), new RegExp(`^${handle} `, 'm'));
        await writesGoOn(namespace);
      };
      const configured = async () => (await driver.holdfast('pools')).includes('other');

      const changed = { ...chartValues(next), config: { pools: { default: {}, other: {} }, defaultPool: 'default' } };
      await release.upgrade(changed, ...settled);
      await replaced();
      assert.equal(await configured(), true);

      await release.rollback(1, ...settled);
      await replaced();
      assert.equal(await configured(), false);

      // No node has this image, so the new pod never starts.
      const missing = chartValues(images.driver.replace(':test', ':missing'));
      await assert.rejects(release.upgrade(missing, '--rollback-on-failure', '--timeout', '60s'));
      await driver.ready();
      await replaced();
      assert.deepEqual(await release.history(), ['superseded', 'superseded', 'superseded', 'failed', 'deployed']);

      await release.uninstall(...settled);
      await writesGoOn(namespace);

      await release.install(chartValues(), ...settled);
      await replaced();
      assert.equal(await namespace.field('pod/user', '.status.containerStatuses[0].restartCount'), '0');
      await namespace.remove('pod/user');
      await namespace.apply(pod('reader', { volumes: { data: 'data' } }));
      await namespace.running('reader');
      const numbers = (await namespace.exec('reader', 'cat /data/numbers')).split('\n').map(Number);
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index + 1),
      );
    } finally {
      await release.uninstall('--ignore-not-found', ...settled);
      await driver.install();
      // Without its CSIDriver object Kubernetes takes the driver of a running pod for one that attaches, and what it notes
      // then it never removes (https://github.com/kubernetes/kubernetes/issues/129572).
      await kubectl.run(['delete', 'volumeattachments', '--all', '--timeout=60s']);
      await runtime.ctr(['images', 'remove', next]);
    }
  },
);

async function writesGoOn(namespace: Namespace): Promise<void> {
  const written = async () => Number(await namespace.exec('user', 'wc -l < /data/numbers'));
  const before = await written();
  await waitFor('the pod to write', async () => assert.ok((await written()) > before + 10));
}
