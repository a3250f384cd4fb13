import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { networkCluster } from '../harness/network/current.ts';
import { asked, iscsi, nvme, persistentVolume, secretOf } from '../harness/network/disks.ts';
import { leftOnNodes } from '../harness/network/left-on-network.ts';
import { allOfStorage, nodeNames } from '../harness/network/network-cluster.ts';
import { networkTest } from '../harness/network/network-test.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const [near] = nodeNames;
const drivers = ['files', 'disks'] as const;
const disks = [nvme, iscsi];
/** Only a failure takes so long. */
const patienceMs = 900_000;

describe('servers that are gone', () => {
  before(async () => {
    const cluster = networkCluster();
    for (const name of drivers) await cluster.drivers.install(name);
    for (const { make } of disks) await cluster.onStorage(`{ ${make}; } || true`);
  });
  after(async () => {
    for (const name of drivers) await networkCluster().drivers.uninstall(name);
  });

  networkTest(
    'nfs, nvme-tcp, iscsi: a pod ends whose servers are gone, its node keeps nothing, and the next pod has what was synced',
    async (namespace) => {
      const cluster = networkCluster();
      const volumes = { nvme: 'nvme-tcp', iscsi: 'iscsi', shared: 'shared' };
      const paths = Object.keys(volumes).map((name) => `/${name}`);
      for (const disk of disks) await cluster.kubectl.apply([persistentVolume(disk.name, disk, namespace.name)]);
      await namespace.apply(
        secretOf(iscsi),
        ...disks.map(({ name }) => claim(name, { ...asked, volumeName: name })),
        claim('shared', { storageClass: 'holdfast-files', accessMode: 'ReadWriteMany', size: '64Mi' }),
        pod('first', { node: near, volumes }),
      );
      await namespace.running('first');
      for (const path of paths) await namespace.exec('first', `echo kept >${path}/last; sync ${path}/last`);
      // Not later: to make a file may need the target, and a process that waits for it cannot be killed.
      for (const path of ['/nvme', '/iscsi']) await namespace.exec('first', `echo lost >${path}/dirty`);
      // One that waits for the NFS server can.
      await namespace.exec('first', '( while echo more >>/shared/more; do sync /shared/more; done >/dev/null 2>&1 & )');
      await cluster.onStorage(allOfStorage.cut);
      try {
        await namespace.remove('pod/first');
        const isClean = async () => assert.deepEqual(await leftOnNodes(cluster), []);
        await waitFor('the node to keep nothing', isClean, patienceMs);
      } finally {
        await cluster.onStorage(allOfStorage.heal);
      }
      await namespace.apply(pod('second', { node: near, volumes }));
      await namespace.running('second');
      for (const path of paths) assert.equal(await namespace.exec('second', `cat ${path}/last`), 'kept');
      await namespace.remove('pod/second', 'pvc/nvme-tcp', 'pvc/iscsi');
      await cluster.kubectl.run(['delete', 'pv', 'nvme-tcp', 'iscsi']);
    },
  );
});
