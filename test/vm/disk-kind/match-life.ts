import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { volumeIdFor } from '../../../src/volume/id.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { capacityBytes } from '../faults/pool-sight.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import type { StartedNode } from '../node/start-node.ts';
import { linkOf, prepareLinks } from './links.ts';
import {
  configOf,
  diskCount,
  freeDisks,
  make,
  mebibyte,
  patienceMs,
  pools,
  poolsOn,
  reasonsIn,
  sections,
  taken,
} from './match-scene.ts';

const random = new SeededRandom(1);
const emptied = (name: string) => `wipefs --quiet --all ${linkOf(name)} && blkdiscard --zeroout ${linkOf(name)}`;

/** Written there: what is written here the machine may have in its memory still. */
async function configure({ node, scratch }: StartedNode, ...texts: readonly string[]): Promise<void> {
  await node.vm.run(`cat >${scratch.join('config.yaml')} <<'END'\n${configOf(...texts)}END`);
}

async function states(node: GuestNode): Promise<ReadonlyMap<string, string>> {
  return new Map((await pools(node)).map(({ name, state }) => [name, state]));
}

/** What a node goes through with disks that were matched, and a volume on one of them. */
export async function liveMatched(started: StartedNode): Promise<void> {
  const { disks, node } = started;
  const largeDisk = disks.find(({ name }) => name === 'large') ?? assert.fail();
  const [small = '', large = ''] = await poolsOn(node, 'small', 'large');
  const kept = await make(node, 'kept', 100n);
  assert.equal(kept.id, volumeIdFor(nodeId, large, 'kept'));
  const isThere = async () => assert.deepEqual(await make(node, 'kept', 100n), kept);
  await hasNoCopies(node, kept.id);

  // Another boot.
  await node.kill();
  await node.vm.reboot();
  await node.mount();
  await node.vm.run(prepareLinks(diskCount));
  await node.start();
  await isThere();

  // Another match: what has a pool keeps it.
  await node.kill();
  await configure(started, sections.named, "big: { kind: disk, match: { id: 'nothing-*' }, labels: { media: hdd } }");
  await node.start();
  await isThere();
  assert.deepEqual([...(await states(node)).keys()].sort(), [small, large, 'named'].sort());

  // One that is cleared is taken without a restart, and so is the one that two sections matched.
  await node.kill();
  await configure(started, sections.named, sections.big);
  const before = taken(node);
  await node.start();
  await node.vm.run(emptied('filesystem'));
  await eventually(async () => assert.equal(taken(node), before + 2), patienceMs);

  // Pulled, and put back: the others go on.
  await node.vm.pull(largeDisk, random);
  await eventually(async () => assert.equal((await states(node)).get(large), 'quarantined'), patienceMs);
  assert.equal((await make(node, 'other', 32n)).sizeBytes, (freeDisks.small - 4n) * mebibyte);
  await node.vm.putBack(largeDisk);
  await eventually(async () => assert.equal((await states(node)).get(large), 'open'), patienceMs);
  await isThere();

  // Away at the start: it is missing, and not forgotten.
  await node.kill();
  await node.vm.pull(largeDisk, random);
  await node.start();
  await assert.rejects(
    node.client.controller.ControllerGetVolume({ volume_id: kept.id }),
    /UNAVAILABLE.*pool big-large-[a-z2-7]{6} is not open/,
  );
  assert.equal((await states(node)).get(large), 'broken');
  await node.vm.putBack(largeDisk);
  await eventually(isThere, patienceMs);
}

/** What is asked for copies is refused, as csi-sanity is not asked to show, and nothing is changed. */
async function hasNoCopies({ client: { controller } }: GuestNode, volume_id: string): Promise<void> {
  const volumes = async () => (await controller.ListVolumes({})).entries.map(({ volume }) => volume?.volume_id);
  const before = await volumes();
  const clone = {
    name: 'clone',
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    volume_content_source: { volume: { volume_id } },
  } as const;
  // CV26
  await assert.rejects(controller.CreateVolume(clone), /INVALID_ARGUMENT.*has no snapshots and no clones/);
  const snapshot = { name: 'cut', source_volume_id: volume_id };
  await assert.rejects(controller.CreateSnapshot(snapshot), /FAILED_PRECONDITION.*has no snapshots and no clones/);
  assert.deepEqual(await volumes(), before);
  assert.deepEqual((await controller.ListSnapshots({})).entries, []);
}

/** Another driver, with files of its own, takes nothing of what the first one has. */
export async function leavesToTheFirst({ node, scratch }: StartedNode): Promise<void> {
  const [config, log] = [scratch.join('second.yaml'), scratch.join('second.log')];
  writeFileSync(config, configOf(sections.big, sections.both));
  const environment = [
    'CSI_ENDPOINT=unix:///run/holdfast/second.sock',
    `HOLDFAST_CONFIG=${config}`,
    'HOLDFAST_DATA=/data/second',
    `HOLDFAST_KUBELET_DIR=${node.kubeletDirectory}`,
    'HOLDFAST_NODE_ID=second',
  ];
  const program = `${process.execPath} ${scratch.join('bundle')}/holdfast.mjs serve`;
  const driver = node.vm.start(`mkdir -p /data/second && exec env ${environment.join(' ')} ${program}`, log);
  const held = () => readFileSync(log, 'utf8').split('is held by').length - 1;
  // Those of both free disks, and of the one that is named.
  await eventually(async () => assert.equal(held(), 3, driver.lastWords()), patienceMs);
  assert.equal(readFileSync(log, 'utf8').includes('is a pool from now on'), false);
  driver.kill();
  await driver.ended;
  assert.deepEqual(await node.vm.run('ls /data/second/pools 2>/dev/null || true'), '');
}

/** Moments in which nothing but the disk's own bytes, or a file or two, tells the next driver what was going on. */
const moments: readonly CrashPoint[] = [
  { when: 'after', step: 'open/format', pass: 2 },
  { when: 'before', step: 'open/remember' },
  { when: 'before', step: 'open/remember', pass: 2 },
  { when: 'after', step: 'open/remember', pass: 2 },
];

/** A driver that is killed while it takes a disk: the next one has it. */
export async function survivesKills(started: StartedNode): Promise<void> {
  const { node } = started;
  const disk = linkOf('contested');
  await node.kill();
  await configure(started, "big: { kind: disk, match: { id: 'scsi-contested' } }");
  for (const moment of moments) {
    await node.vm.run(`
      for name in $(dmsetup ls | grep -o '^holdfast-disk-[^[:space:]]*'); do dmsetup remove --noudevsync $name; done
      rm -rf ${node.dataDirectory}/pools && ${emptied('contested')}
      blockdev --flushbufs ${disk} && blockdev --rereadpt ${disk}`);
    node.spawn(moment);
    await eventually(async () => assert.equal(await running(node), '0'), patienceMs);
    await node.kill();
    await node.start();
    await eventually(
      async () =>
        assert.equal(
          await capacityBytes(node, 'big'),
          (freeDisks.small - 4n) * mebibyte,
          `${JSON.stringify(moment)}: ${reasonsIn(node).at(-1)}`,
        ),
      patienceMs,
    );
    await node.kill();
  }
}

async function running(node: GuestNode): Promise<string> {
  return (await node.vm.run(`pgrep -cf '[h]oldfast.mjs serve' || true`)).trim();
}
