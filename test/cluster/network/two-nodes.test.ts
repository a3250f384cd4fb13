import assert from 'node:assert/strict';
import { before, describe } from 'node:test';
import { networkCluster } from '../harness/network/current.ts';
import { asked, iscsi, nvme, otherNvme, persistentVolume, secretOf } from '../harness/network/disks.ts';
import { nodeNames } from '../harness/network/network-cluster.ts';
import { networkTest } from '../harness/network/network-test.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const [near, far] = nodeNames;
const drivers = ['files', 'disks'] as const;
const files = { storageClass: 'holdfast-files', accessMode: 'ReadWriteMany', size: '64Mi' } as const;

describe('two nodes', () => {
  before(async () => {
    const cluster = networkCluster();
    // Before there is another node: so the homes are on the one that dies in the end.
    for (const name of drivers) await cluster.drivers.install(name);
    await cluster.addNode(far);
    for (const name of drivers) await cluster.drivers.ready(name);
    for (const { make } of [otherNvme, nvme, iscsi]) await cluster.onStorage(`{ ${make}; } || true`);
  });

  networkTest('nfs: pods of both write to one claim, and a lock of one keeps the other out', async (namespace) => {
    const volumes = { shared: 'shared' };
    await namespace.apply(
      claim('shared', files),
      pod('near', { node: near, volumes }),
      pod('far', { node: far, volumes }),
    );
    await namespace.running('near', 'far');
    await namespace.exec('near', 'echo near >/shared/near; sync /shared/near');
    assert.equal(await namespace.exec('far', 'cat /shared/near; echo far >/shared/far; sync /shared/far'), 'near');
    await waitFor('the other file', async () => assert.equal(await namespace.exec('near', 'cat /shared/far'), 'far'));
    await namespace.exec('near', 'touch /shared/lock; (flock /shared/lock sleep 100000 >/dev/null 2>&1 &) ; sleep 2');
    assert.equal(await namespace.exec('far', 'flock -n /shared/lock true && echo taken || echo refused'), 'refused');
  });

  networkTest('nvme-tcp: pods on two nodes have one raw block volume', async (namespace) => {
    const { kubectl } = networkCluster();
    const volumes = { disk: { source: 'disk', block: true } };
    await kubectl.apply([persistentVolume('both', otherNvme, namespace.name, true)]);
    await namespace.apply(
      claim('disk', { ...asked, volumeName: 'both', volumeMode: 'Block', accessMode: 'ReadWriteMany' }),
      pod('near', { node: near, volumes }),
      pod('far', { node: far, volumes }),
    );
    await namespace.running('near', 'far');
    const write =
      'head -c 1048576 /dev/urandom | tee /tmp/data | dd of=/dev/disk bs=64k conv=fsync 2>/dev/null; md5sum </tmp/data';
    const sum = await namespace.exec('near', write);
    assert.equal(await namespace.exec('far', 'dd if=/dev/disk bs=64k count=16 iflag=direct 2>/dev/null | md5sum'), sum);
    await namespace.remove('pod/near', 'pod/far', 'pvc/disk');
    await kubectl.run(['delete', 'pv', 'both']);
  });

  // The last one: the node does not come back.
  networkTest(
    'a node that dies with volumes and homes loses nothing that was synced, and another node has them all',
    async (namespace) => {
      const cluster = networkCluster();
      const disks = [nvme, iscsi];
      const volumes = { nvme: 'nvme-tcp', iscsi: 'iscsi', shared: 'shared' };
      // The homes die with it, too: that of the files has a lock on the export.
      for (const name of drivers) assert.equal(await cluster.drivers.nodesOfHome(name), near);
      for (const disk of disks) await cluster.kubectl.apply([persistentVolume(disk.name, disk, namespace.name)]);
      await namespace.apply(
        secretOf(iscsi),
        ...disks.map(({ name }) => claim(name, { ...asked, volumeName: name })),
        claim('shared', files),
        pod('first', { node: near, volumes }),
      );
      await namespace.running('first');
      const paths = ['nvme', 'iscsi', 'shared'].map((name) => `/${name}/last`);
      for (const path of paths) await namespace.exec('first', `echo kept >${path}; sync ${path}`);
      await cluster.killNode(near);
      const taint = 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute';
      await cluster.kubectl.run(['wait', '--for=condition=Ready=Unknown', '--timeout=900s', `node/${near}`]);
      await cluster.kubectl.run(['taint', 'node', near, taint]);
      await namespace.wait('--for=delete', 'pod/first');
      await namespace.apply(pod('second', { node: far, volumes }));
      await namespace.running('second');
      for (const path of paths) assert.equal(await namespace.exec('second', `cat ${path}`), 'kept');
      await namespace.apply(claim('later', files));
      await namespace.bound('later');
      await namespace.remove('pod/second', 'pvc/nvme-tcp', 'pvc/iscsi');
      await cluster.kubectl.run(['delete', 'pv', 'nvme-tcp', 'iscsi']);
    },
  );
});
