import assert from 'node:assert/strict';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { GuestVolume } from '../node/guest-volume.ts';
import type { NodeSetup, StartedNode } from '../node/start-node.ts';
import { linkOf, prepareLinks, relink } from './links.ts';

const path = linkOf('his');
const patienceMs = 600_000;

/** A disk with somebody's filesystem and his file. */
export const adoptionSetup: NodeSetup = {
  config: `defaultPool: db-1\npools: { db-1: { kind: disk, device: ${path}, adopt: true } }\n`,
  pools: ['db-1'],
  disks: [{ name: 'his', sizeGiB: 0.5, bus: 'scsi' }],
  prepare: `${prepareLinks(1)}\nmkfs.ext4 -q -F ${path} && mkdir -p /run/his && mount ${path} /run/his && echo precious >/run/his/file && umount /run/his`,
};

/** It becomes the volume of a claim, is used through a killed driver and a reboot, and is as it was before. */
export async function liveAdopted({ node }: StartedNode): Promise<void> {
  const says = (words: string, expected: RegExp) =>
    eventually(async () => {
      const { stderr, stdout } = await node.command(words);
      assert.match(stdout + stderr, expected);
    }, patienceMs);
  await says('pools', /what \S+his holds is no volume yet: holdfast adopt/);

  const adopted = await node.command(`adopt ${path} --pool db-1 --claim shop/data-db-0 --class disk --retain`);
  assert.equal(adopted.code, 0, adopted.stderr);
  for (const line of ['fsType: ext4', 'storage: "512Mi"', 'storageClassName: disk', 'name: data-db-0']) {
    assert.ok(adopted.stdout.includes(line), adopted.stdout);
  }
  const id = /volumeHandle: (\S+)/.exec(adopted.stdout)?.[1] ?? assert.fail(adopted.stdout);
  const volume = new GuestVolume(node, id, { name: 'adopted', content: 'ext4', pool: 'db-1' });
  await volume.use();
  assert.equal(await hisFile(node, volume), 'precious\n');
  await leaveKeepsake(node, volume);
  await says('volumes', /shop\/data-db-0/);
  assert.match((await node.command('release shop/data-db-0')).stderr, /in use/);

  await node.kill();
  await node.start();
  await assertKeepsake(node, volume);

  await node.kill();
  await node.vm.reboot();
  await node.mount();
  await relink(node, 1);
  await node.start();
  await volume.use();
  await assertKeepsake(node, volume);
  await volume.leave();
  await says('doctor', /ok +device-mapper/);

  const released = await node.command('release shop/data-db-0');
  assert.equal(released.code, 0, released.stderr);
  assert.match(released.stdout, /is no volume any more: its data lies at \S+his\./);
  assert.equal(
    await node.vm.run(`mkdir -p /run/his && mount ${path} /run/his && cat /run/his/file && umount /run/his`),
    'precious\n',
  );
  await says('pools', /is no volume yet/);
}

function hisFile(node: GuestNode, { targetPath }: GuestVolume): Promise<string> {
  return node.vm.run(`cat ${targetPath}/file`);
}
