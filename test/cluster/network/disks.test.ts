import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { networkCluster } from '../harness/network/current.ts';
import {
  asked,
  encryptedOfTwoPaths,
  iscsi,
  iscsiOfTwoPaths,
  nvme,
  nvmeOfTwoPaths,
  persistentVolume,
  secretOf,
} from '../harness/network/disks.ts';
import { leftOnNodes } from '../harness/network/left-on-network.ts';
import { nodeNames, secondWay } from '../harness/network/network-cluster.ts';
import { networkTest } from '../harness/network/network-test.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const [near] = nodeNames;
const ofTwoPaths = [nvmeOfTwoPaths, iscsiOfTwoPaths, encryptedOfTwoPaths];
/** Only a failure takes so long. */
const patienceMs = 300_000;
/** Each line is on the disk before the next one is written. */
const writeLines =
  '( i=0; while i=$((i+1)); do echo $i >>/data/lines && sync /data/lines || exit; sleep 0.2; done >/dev/null 2>&1 & )';
/** How many there are; fails if one is missing. */
const countLines = "awk '$1 != NR { exit 1 } END { print NR }' /data/lines";

describe('disks of a network', () => {
  before(async () => {
    const cluster = networkCluster();
    await cluster.drivers.install('disks');
    await cluster.onStorage(secondWay.make);
    for (const { make } of [nvme, iscsi, ...ofTwoPaths]) await cluster.onStorage(make);
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

  for (const disk of ofTwoPaths) {
    networkTest(
      `${disk.name}: a pod goes on while one of two paths is cut, and the node keeps nothing of it when it ends`,
      async (namespace) => {
        const cluster = networkCluster();
        const node = cluster.node(near);
        const volumes = { data: 'data' };
        const states = async () => (await node.run(disk.states)).trim().split('\n');
        if (disk === iscsiOfTwoPaths) await cluster.startMultipathd(near);
        await cluster.kubectl.apply([persistentVolume(disk.name, disk, namespace.name)]);
        await namespace.apply(
          secretOf(disk),
          claim('data', { ...asked, volumeName: disk.name }),
          pod('first', { node: near, volumes }),
        );
        await namespace.running('first');
        await waitFor(
          'both paths to work',
          async () => assert.deepEqual(await states(), [disk.works, disk.works]),
          patienceMs,
        );
        assert.match((await node.run('cat /sys/block/dm-*/dm/uuid || true')).trim(), disk.mapped);
        await namespace.exec('first', writeLines);
        await cluster.onStorage(secondWay.cut);
        let before = 0;
        try {
          await waitFor(
            'one path to be lost',
            async () => assert.equal((await states()).filter((state) => state === disk.works).length, 1),
            patienceMs,
          );
          before = Number(await namespace.exec('first', countLines));
          await waitFor(
            'lines that are written over the other path',
            async () => assert.ok(Number(await namespace.exec('first', countLines)) > before + 5),
            patienceMs,
          );
          await namespace.remove('pod/first');
          const isClean = async () => assert.deepEqual(await leftOnNodes(cluster), []);
          await waitFor('the node to keep nothing', isClean, patienceMs);
        } finally {
          await cluster.onStorage(secondWay.heal);
        }
        await namespace.apply(pod('second', { node: near, volumes }));
        await namespace.running('second');
        assert.ok(Number(await namespace.exec('second', countLines)) > before + 5);
        await namespace.remove('pod/second', 'pvc/data');
        await cluster.kubectl.run(['delete', 'pv', disk.name]);
      },
    );
  }
});
