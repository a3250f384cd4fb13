import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shapes } from '../../src/cli/output/shapes.ts';
import { eventually } from '../support/eventually.ts';
import { linkOf, prepareLinks } from './disk-kind/links.ts';
import { patienceMs } from './disk-kind/match-scene.ts';
import type { GuestNode } from './node/guest-node.ts';
import { startNode } from './node/start-node.ts';

const disk = (name: string, sizeMebibytes: number) =>
  ({ name, serial: name, sizeGiB: sizeMebibytes / 1024, bus: 'scsi' }) as const;
/** Two of one sort, of which one is somebody's; one for a volume group; two that are free; one that may be the pool's. */
const disks = [
  ...[disk('fast', 400), disk('foreign', 400), disk('grouped', 96)],
  ...[disk('left', 64), disk('right', 64), disk('before', 352)],
];
const later = disk('later', 400);

const config = `defaultPool: base
pools:
  base: { size: 320Mi }
  fast: { match: { bus: scsi, size: { minimum: 390Mi } } }
  group: { kind: lvm, match: { id: 'scsi-grouped' } }
  both: { kind: lvm, match: { size: { maximum: 70Mi } } }
  old: { match: { id: 'scsi-before' } }
`;

async function pools(node: GuestNode) {
  const { stdout } = await node.command('pools --json');
  return new Map(shapes.pools.parse(JSON.parse(stdout)).pools.map((pool) => [pool.name, pool]));
}

test('one section for a disk of each node: the only free one that matches, and it stays that', async (t) => {
  const setup = {
    config,
    pools: ['base'],
    disks: [...disks, later],
    prepare: [
      prepareLinks(disks.length + 1),
      `mkfs.ext4 -q ${linkOf('foreign')}`,
      `mkfs.ext4 -q ${linkOf('later')}`,
      `mkfs.xfs -q ${linkOf('before')}`,
    ].join('\n'),
  };
  await using started = await startNode(t, setup);
  const { node } = started;
  const untouched = started.disks.filter(({ name }) => ['foreign', 'later', 'left', 'right', 'before'].includes(name));
  await node.vm.run('sync');
  const writes = () => untouched.map((each) => each.writes);
  const before = writes();
  await eventually(async () => {
    const seen = await pools(node);
    assert.deepEqual([seen.get('fast')?.state, seen.get('group')?.state], ['open', 'open'], node.lastWords());
  }, patienceMs);
  const seen = await pools(node);
  assert.match(
    seen.get('both')?.advice ?? '',
    /\/dev\/sd. and \/dev\/sd. match and are free, and the pool has one disk/,
  );
  assert.match(seen.get('old')?.advice ?? '', /matches and holds xfs: it may be the disk that this pool had/);
  const notes = () => node.vm.run(`cat ${node.dataDirectory}/pools/*.matched`);
  const noted = await notes();
  assert.match(noted, /"section":"fast"/);
  assert.equal(noted.trim().split('\n').length, 2, 'what is not taken is not noted');
  assert.deepEqual(writes(), before, 'no other disk is written to');
  const { stdout } = await node.command('disks');
  assert.match(stdout, / fast +no +it is of pool fast/);
  assert.match(stdout, / left +yes .*pool both matches it and another free disk: none is taken/);

  // Another boot, and another disk that matches is free by now: the pool has its own.
  await node.kill();
  await node.vm.reboot();
  await node.vm.run(prepareLinks(disks.length + 1));
  await node.vm.run(`wipefs --quiet --all ${linkOf('later')} && blkdiscard --zeroout ${linkOf('later')} && sync`);
  await node.mount();
  const rebooted = writes();
  await node.start();
  await eventually(async () => {
    const again = await pools(node);
    assert.deepEqual([again.get('fast')?.state, again.get('group')?.state], ['open', 'open'], node.lastWords());
  }, patienceMs);
  assert.equal(await notes(), noted);
  assert.deepEqual(writes(), rebooted);
});
