import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { networkCluster } from '../harness/network/current.ts';
import { asked, iscsi, nvme, persistentVolume, secretOf } from '../harness/network/disks.ts';
import { nodeNames } from '../harness/network/network-cluster.ts';
import { networkTest } from '../harness/network/network-test.ts';
import { claim, pod } from '../harness/objects.ts';

const [near] = nodeNames;

describe('disks of a network', () => {
  before(async () => {
    await networkCluster().drivers.install('disks');
    for (const { make } of [nvme, iscsi]) await networkCluster().onStorage(make);
  });
  after(() => networkCluster().drivers.uninstall('disks'));

  for (const disk of [nvme, iscsi]) {
    networkTest(
      `${disk.name}: a volume keeps what was written, from one pod to the next, while the driver is killed, and grows under it`,
      async (namespace) => {
        const cluster = networkCluster();
        const volumes = { data: 'data' };
        await cluster.kubectl.apply([persistentVolume(disk.name, disk, namespace.name)]);
        await namespace.apply(
          secretOf(disk),
          claim('data', { ...asked, volumeName: disk.name }),
          pod('first', { node: near, volumes }),
        );
        await namespace.running('first');
        const write = 'head -c 4000000 /dev/urandom >/data/file; sync /data/file; md5sum </data/file';
        const sum = await namespace.exec('first', write);
        await cluster.node(near).run("pkill --signal KILL --full 'holdfast.mjs serve'");
        assert.equal(await namespace.exec('first', 'md5sum </data/file'), sum);
        await namespace.remove('pod/first');
        await namespace.apply(pod('second', { node: near, volumes }));
        await namespace.running('second');
        assert.equal(await namespace.exec('second', 'md5sum </data/file'), sum);

        await cluster.onStorage(disk.grow);
        const larger = '{"spec":{"resources":{"requests":{"storage":"448Mi"}}}}';
        await namespace.run(['patch', 'pvc', 'data', '--patch', larger]);
        await namespace.wait('--for=jsonpath={.status.capacity.storage}=448Mi', 'pvc/data');
        assert.ok(Number(await namespace.exec('second', "df -m /data | awk 'END { print $2 }'")) > 370);
        assert.equal(await namespace.exec('second', 'md5sum </data/file'), sum);
        await namespace.remove('pod/second', 'pvc/data');
        await cluster.kubectl.run(['delete', 'pv', disk.name]);
      },
    );
  }
});
