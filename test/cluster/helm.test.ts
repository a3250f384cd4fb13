import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Helm } from '../deploy/helm.ts';
import { Release } from '../deploy/release.ts';
import { makeChart, chartValues as valuesOfChart } from './harness/chart.ts';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { images } from './harness/images.ts';
import { assertAllNumbers, writeNumbers, writesGoOn } from './harness/numbers.ts';
import { claim, pod } from './harness/objects.ts';

/** Without a controller: pods have no network here. */
const chartValues = (image?: string) => ({ ...valuesOfChart(image), controller: { enabled: false } });

const settled = ['--wait', '--timeout', '180s'];

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
      await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, script: writeNumbers }));
      await namespace.running('user');
      const { handle } = await namespace.volumeOf('data');
      const pids = [(await driver.process()).pid];
      const replaced = async () => {
        pids.push((await driver.process()).pid);
        assert.equal(new Set(pids).size, pids.length, `the driver's process is one of before: ${pids}`);
        assert.match(await driver.holdfast('volumes'), new RegExp(`^${handle} `, 'm'));
        await writesGoOn(namespace, 'user');
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
      await writesGoOn(namespace, 'user');

      await release.install(chartValues(), ...settled);
      await replaced();
      assert.equal(await namespace.field('pod/user', '.status.containerStatuses[0].restartCount'), '0');
      await namespace.remove('pod/user');
      await namespace.apply(pod('reader', { volumes: { data: 'data' } }));
      await namespace.running('reader');
      await assertAllNumbers(namespace, 'reader');
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
