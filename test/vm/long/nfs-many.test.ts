import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { lifeOf, NfsVolume } from '../nfs/nfs-volume.ts';
import { nfsServer } from '../nfs/server.ts';
import { startNode } from '../node/start-node.ts';

const volumeCount = 200;
const awayMs = 120_000;
/** For what the driver finds out gradually, on a busy machine. */
const patienceMs = 400_000;

/** Works with all of them, some at a time. */
async function withEach(volumes: readonly NfsVolume[], work: (volume: NfsVolume) => Promise<unknown>): Promise<void> {
  const left = [...volumes];
  const one = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: 8 }, one));
}

test('T07: 200 volumes on one export, whose server is away for two minutes: others notice nothing, and all go on', async (t) => {
  await using started = await startNode(t, {
    config: `
defaultPool: well
pools:
  well: { kind: nfs, server: 10.79.0.1, share: /export, path: well, sickAfter: 10m }
  files: { kind: nfs, server: 10.77.0.1, share: /export, path: files }
`,
    pools: ['well', 'files'],
    disks: [{ name: 'export', sizeGiB: 2 }],
    prepare: (vm) => nfsServer(vm, 'make /dev/vdb'),
  });
  const { node } = started;
  const { client, vm } = node;
  const paths = `$(seq -f '/srv/files/export/many/%g' ${volumeCount})`;
  await vm.run(`mkdir -p ${paths} && for each in ${paths}; do basename $each >$each/file; done`);
  const volumes = Array.from({ length: volumeCount }, (_, index) => {
    const context = { server: '10.77.0.1', share: '/export', subDir: `many/${index + 1}` };
    return new NfsVolume(node, `many-${index + 1}`, context);
  });
  // A busy server may take longer to answer than the driver waits; the kubelet tries again, too.
  await withEach(volumes, (volume) => eventually(() => volume.use(), patienceMs));
  const lifeMs = await lifeOf(node, 'well');

  await vm.run(nfsServer(vm, 'cut'));
  const untilMs = performance.now() + awayMs;
  // The kubelet asks for the statistics of all of them.
  const asked = withEach(volumes, async (volume) => {
    const { volume_condition } = await volume.stats();
    assert.equal(volume_condition?.abnormal, true);
  });
  let slowestProbeMs = 0;
  let slowestLifeMs = 0;
  while (performance.now() < untilMs) {
    const startedMs = performance.now();
    assert.equal((await client.identity.Probe({})).ready?.value, true);
    slowestProbeMs = Math.max(slowestProbeMs, performance.now() - startedMs);
    slowestLifeMs = Math.max(slowestLifeMs, await lifeOf(node, 'well'));
  }
  await asked;
  t.diagnostic(
    `a life on the other server took ${lifeMs.toFixed(0)} ms before, at most ${slowestLifeMs.toFixed(0)} ms meanwhile; a Probe at most ${slowestProbeMs.toFixed(0)} ms`,
  );
  const left = volumes.splice(0, 20);
  await withEach(left, (volume) => volume.leave());

  await vm.run(nfsServer(vm, 'heal'));
  await eventually(
    async () => assert.equal((await volumes[0]?.stats())?.volume_condition?.abnormal, false),
    patienceMs,
  );
  const last = volumes.at(-1)?.targetPath ?? '';
  assert.equal((await vm.run(`cat ${last}/file`)).trim(), `${volumeCount}`);
  await withEach(volumes, (volume) => volume.leave());
  // The driver's own mounts, of its two pools.
  await eventually(async () => {
    const found = await vm.run(`grep -c ' - nfs4 ' /proc/self/mountinfo; ps -eo stat= | grep -c '^D'; true`);
    assert.equal(found.trim(), '2\n0');
  }, patienceMs);
});
