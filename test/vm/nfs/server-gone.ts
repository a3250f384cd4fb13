import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';
import { lifeOf, NfsVolume } from './nfs-volume.ts';
import { makeServer, type NfsServerProgram, nfsServer } from './server.ts';

/** Two servers: packets of the second pool's can be dropped. */
const setupWith = (server: NfsServerProgram): NodeSetup => ({
  config: `
defaultPool: well
pools:
  well: { kind: nfs, server: 10.79.0.1, share: /export, path: well, sickAfter: 10m }
  files: { kind: nfs, server: 10.77.0.1, share: /export, path: files }
`,
  pools: ['well', 'files'],
  disks: [{ name: 'export', sizeGiB: 2 }],
  prepare: (vm) => nfsServer(vm, makeServer('/dev/vdb', server)),
});

/** For what the driver finds out gradually, on a busy machine. */
const patienceMs = 400_000;

/** Mounts of NFS that the machine has, and programs in uninterruptible sleep. */
async function leftovers({ vm }: GuestNode): Promise<string> {
  return (await vm.run(`grep -c ' - nfs4 ' /proc/self/mountinfo; ps -eo stat= | grep -c '^D'; true`)).trim();
}

async function write({ vm }: GuestNode, { targetPath }: NfsVolume, text: string): Promise<void> {
  await vm.run(`echo ${text} >${targetPath}/file && sync ${targetPath}/file`);
}

async function read({ vm }: GuestNode, { targetPath }: NfsVolume): Promise<string> {
  return (await vm.run(`echo 3 >/proc/sys/vm/drop_caches; cat ${targetPath}/file`)).trim();
}

/** A driver while its server goes and comes back. @param title what the server is called */
export function describeServerGone(title: string, server: NfsServerProgram): void {
  describe(`T07: ${title} that is gone hurts only its own volumes`, () => {
    const setup = setupWith(server);
    test('cut off: all calls end with a reason, volumes can be left, others go on, and it comes back by itself', async (t) => {
      await using started = await startNode(t, setup);
      const { node } = started;
      const volume = await NfsVolume.create(node, 'files');
      const left = await NfsVolume.create(node, 'files');
      for (const each of [volume, left]) {
        await each.use();
        await write(node, each, 'kept');
      }
      const beforeMs = await lifeOf(node, 'well');
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);

      await node.vm.run(nfsServer(node.vm, 'cut'));
      // A program waits for the server meanwhile.
      await node.vm.run(
        `(cat ${volume.targetPath}/file; ls ${volume.targetPath}/missing) >/tmp/waited 2>&1 </dev/null &`,
      );
      // What was found a moment ago is told for a second.
      await eventually(async () => {
        const { volume_condition } = await volume.stats();
        assert.equal(volume_condition?.abnormal, true);
        assert.match(volume_condition.message, /does not answer|has not answered/);
      });
      const leftAtMs = performance.now();
      await left.leave();
      t.diagnostic(`unpublished and unstaged without the server in ${(performance.now() - leftAtMs).toFixed(0)} ms`);
      await assert.rejects(left.use(), /NFS server 10\.77\.0\.1 does not answer at port 2049/);
      await eventually(async () => {
        await assert.rejects(
          NfsVolume.create(node, 'files'),
          /in quarantine .*NFS server 10\.77\.0\.1 has not answered/,
        );
      }, patienceMs);
      const duringMs = await lifeOf(node, 'well');
      const { ready } = await node.client.identity.Probe({});
      assert.equal(ready?.value, true);

      await node.vm.run(nfsServer(node.vm, 'heal'));
      await eventually(async () => {
        const { available_capacity } = await node.client.controller.GetCapacity({ parameters: { pool: 'files' } });
        assert.ok(available_capacity > 0n);
      }, patienceMs);
      assert.equal(await read(node, volume), 'kept');
      await left.use();
      assert.equal(await read(node, left), 'kept');
      for (const each of [volume, left]) {
        await each.leave();
        await each.delete();
      }
      t.diagnostic(
        `a life on the other server took ${beforeMs.toFixed(0)} ms before, ${duringMs.toFixed(0)} ms meanwhile`,
      );
      // The driver's own mounts, of its two pools.
      await eventually(async () => assert.equal(await leftovers(node), '2\n0'), patienceMs);
    });

    test('cut off: a volume that no pod uses any more is unmounted before its unstage, as the kubelet waits at its path', async (t) => {
      await using started = await startNode(t, setup);
      const { node } = started;
      const { vm } = node;
      const [earlier, later] = [await NfsVolume.create(node, 'files'), await NfsVolume.create(node, 'files')];
      for (const each of [earlier, later]) {
        await each.use();
        await write(node, each, 'kept');
      }
      // The next driver has not seen its last pod go.
      await earlier.unpublish();
      await node.kill();
      await node.start();
      await vm.run(nfsServer(vm, 'cut'));
      await later.unpublish();
      for (const { id, stagingPath } of [earlier, later]) {
        // As long as it is mounted: what was found of it is true for a while without a question to the server.
        const looks = `while grep -q ' ${stagingPath} ' /proc/self/mountinfo; do stat ${stagingPath}; sleep 1; done`;
        await vm.run(`(${looks}; echo over >/run/looks-${id}) >/dev/null 2>&1 </dev/null &`);
      }
      for (const { id } of [earlier, later]) {
        await eventually(
          async () => assert.equal((await vm.run(`cat /run/looks-${id}`)).trim(), 'over'),
          2 * patienceMs,
        );
      }
      assert.match(node.log(), /no pod of this node uses the volume: it is unmounted/);
      for (const each of [earlier, later]) await each.unstage();
      await vm.run(nfsServer(vm, 'heal'));
      for (const each of [earlier, later]) {
        await each.use();
        assert.equal(await read(node, each), 'kept');
        await each.leave();
      }
      await eventually(async () => {
        for (const each of [earlier, later]) await each.delete();
        assert.equal(await leftovers(node), '2\n0');
      }, patienceMs);
    });

    test('slow: calls are waited for, and others take their usual time', async (t) => {
      await using started = await startNode(t, setup);
      const { node } = started;
      const beforeMs = await lifeOf(node, 'well');
      await node.vm.run(nfsServer(node.vm, 'slow'));
      const startedMs = performance.now();
      const volume = await NfsVolume.create(node, 'files');
      await volume.use();
      const tookMs = performance.now() - startedMs;
      await write(node, volume, 'kept');
      // Its condition may say that it is silent: the answer takes many packets.
      await volume.stats();
      const duringMs = await lifeOf(node, 'well');
      await volume.leave();
      await node.vm.run(nfsServer(node.vm, 'fast'));
      await volume.use();
      assert.equal(await read(node, volume), 'kept');
      await volume.leave();
      await volume.delete();
      const [took, before, during] = [tookMs, beforeMs, duringMs].map((ms) => ms.toFixed(0));
      t.diagnostic(
        `with 100 ms for each packet a volume was there after ${took} ms; a life on the other server took ${before} ms before, ${during} ms meanwhile`,
      );
      await eventually(async () => assert.equal(await leftovers(node), '2\n0'), patienceMs);
    });

    test('restarted under load: what was fsynced is there, and its users go on', async (t) => {
      await using started = await startNode(t, setup);
      const { node } = started;
      const volume = await NfsVolume.create(node, 'files');
      await volume.use();
      await write(node, volume, 'kept');
      const load = `dd if=/dev/zero of=${volume.targetPath}/load bs=1M count=32 conv=fsync`;
      await node.vm.run(`(${load}; echo $? >/tmp/dd.code) >/tmp/dd.log 2>&1 </dev/null &`);
      await node.vm.run(nfsServer(node.vm, 'stop'));
      await assert.rejects(
        new NfsVolume(node, 'other', { server: '10.77.0.1', share: '/export' }).use(),
        /cannot be reached at port 2049 \(ECONNREFUSED\)/,
      );
      await node.vm.run(nfsServer(node.vm, 'start'));
      await node.vm.run('until [ -e /tmp/dd.code ]; do sleep 0.2; done');
      assert.equal((await node.vm.run('cat /tmp/dd.code')).trim(), '0');
      assert.equal(await read(node, volume), 'kept');
      await volume.leave();
      await eventually(() => volume.delete(), patienceMs);
      await eventually(async () => assert.equal(await leftovers(node), '2\n0'), patienceMs);
    });

    test('a PersistentVolume that a person wrote is mounted for several pods, and again after the driver was killed', async (t) => {
      await using started = await startNode(t, setup);
      const { node } = started;
      await node.vm.run('mkdir -p /srv/files/export/legacy/data && echo old >/srv/files/export/legacy/data/file');
      const context = { server: '10.77.0.1', share: '/export', subDir: 'legacy/data' };
      const volume = new NfsVolume(node, 'nas.example.com#export#legacy/data', context);
      await volume.use();
      const second = `${node.kubeletDirectory}/pods/second/volume`;
      await volume.use(second);
      assert.equal(await read(node, volume), 'old');
      await node.vm.run(`echo new >${second}/file`);
      assert.equal(await read(node, volume), 'new');
      await node.kill();
      await node.start();
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
      await node.client.node.NodeUnpublishVolume({ volume_id: volume.id, target_path: second });
      await volume.leave();
      assert.equal(await node.vm.run('cat /srv/files/export/legacy/data/file'), 'new\n');
      assert.equal(await leftovers(node), '2\n0');
    });
  });
}
