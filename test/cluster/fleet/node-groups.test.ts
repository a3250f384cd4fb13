import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Helm } from '../../deploy/helm.ts';
import { Release } from '../../deploy/release.ts';
import { chartValues, makeChart } from '../harness/chart.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type } from '../harness/fleet/terminal.ts';
import { assertAllNumbers, writeNumbers, writesGoOn } from '../harness/numbers.ts';
import { claim, type Manifest, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const label = 'holdfast.csi.dev/group';
const pools = (media: string) => ({ pools: { default: { labels: { media } } } });
const values = {
  ...chartValues(),
  controller: { enabled: true },
  config: pools('hdd'),
  nodeGroups: { fast: { config: pools('nvme') } },
};
/** Where there is no such pool there is no room, which the scheduler is told. */
const nvme: Manifest = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'node-groups-nvme' },
  provisioner: 'holdfast.csi.dev',
  parameters: { poolSelector: 'media=nvme' },
  volumeBindingMode: 'WaitForFirstConsumer',
};
fleetTest(
  'the chart with groups of nodes: a DaemonSet for each, and a node changes its group under a pod',
  async (namespace) => {
    const { dataDirectory, driver, kubeconfig, kubectl } = fleet();
    const makeDirectory = (...parts: string[]) => fleet().makeDirectory(...parts);
    const release = new Release({
      helm: await Helm.build(),
      kubeconfig,
      chart: makeChart({ dataDirectory, hasPodNetwork: true, makeDirectory }),
    });
    await driver.uninstall();
    try {
      await kubectl.run(['apply', '-f', join(import.meta.dirname, '../../../deploy/base/namespace.yaml')]);
      await kubectl.run(['label', 'node', 'node-a', 'node-b', `${label}=fast`]);
      await release.install(values, '--wait', '--timeout', '400s');
      await driver.linked();
      assert.deepEqual(await driver.groups(), [
        ['node-a', 'fast'],
        ['node-b', 'fast'],
        ['node-c', ''],
      ]);

      await namespace.apply(
        nvme,
        ...['first', 'second', 'third', 'fourth'].map((name) => claim(name, { storageClass: 'node-groups-nvme' })),
        ...['first', 'second', 'third', 'fourth'].map((name) => pod(name, { volumes: { data: name } })),
        claim('moving'),
        claim('plain'),
        pod('moving', { volumes: { data: 'moving' }, node: 'node-a', script: writeNumbers }),
        pod('plain', { volumes: { data: 'plain' }, node: 'node-c' }),
      );
      await namespace.running('first', 'second', 'third', 'fourth', 'moving', 'plain');
      for (const name of ['first', 'second', 'third', 'fourth']) {
        assert.notEqual(await namespace.field(`pod/${name}`, '.spec.nodeName'), 'node-c');
      }

      await kubectl.run(['label', 'node', 'node-a', `${label}-`]);
      await waitFor(
        'the driver of no group to take over',
        async () => {
          assert.deepEqual(await driver.groups(), [
            ['node-a', ''],
            ['node-b', 'fast'],
            ['node-c', ''],
          ]);
        },
        240_000,
      );
      for (const name of ['holdfast', 'holdfast-fast']) {
        await driver.run(['rollout', 'status', '--timeout=140s', `daemonset/${name}`]);
      }
      await driver.linked();
      await writesGoOn(namespace, 'moving');
      assert.equal(await namespace.field('pod/moving', '.status.containerStatuses[0].restartCount'), '0');
      // The new driver has the pool, by its own configuration, and all that was in it.
      assert.match((await type('kubectl holdfast pools --node node-a --json --wait 60')).stdout, /"media": *"hdd"/);
      const { handle } = await namespace.volumeOf('moving');
      assert.match(await driver.holdfast('node-a', 'volumes'), new RegExp(`^${handle} `, 'm'));
      await namespace.remove('pod/moving');
      await namespace.apply(pod('again', { volumes: { data: 'moving' } }));
      await namespace.running('again');
      await assertAllNumbers(namespace, 'again');
      await namespace.run(['delete', 'pods,pvc', '--all', '--timeout=240s']);
    } finally {
      await release.uninstall('--ignore-not-found', '--wait', '--timeout', '180s');
      await kubectl.run(['label', 'node', 'node-a', 'node-b', `${label}-`]);
      // The chart leaves it, and what it says of inline volumes cannot be changed.
      await kubectl.run([
        'delete',
        'csidriver/holdfast.csi.dev',
        'storageclass/node-groups-nvme',
        '--ignore-not-found',
      ]);
      await driver.install();
      await driver.linked();
    }
  },
);
