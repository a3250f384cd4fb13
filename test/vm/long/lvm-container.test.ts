import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { Scratch } from '../../support/scratch.ts';
import { liveThrough, nothingIsLeft, patienceMs, volumeOf } from '../container/life.ts';
import { makePod } from '../container/pod.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

const sizeBytes = 64n << 20n;
/** What udev calls the third disk. */
const wholeDisk = '/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_whole';
/** LVM of the node writes down the namespaces that it runs in. */
const noted = '/run/lvm-namespaces';
const noting = [
  'mkdir /run/real && cp /usr/sbin/lvm /run/real/lvm',
  `printf '#!/bin/sh\\nreadlink /proc/self/ns/mnt /proc/self/ns/ipc >>${noted}\\nexec /run/real/lvm "$@"\\n' >/run/noting`,
  'chmod 755 /run/noting && mount --bind /run/noting /usr/sbin/lvm',
];
/** The node has none; what looks here has kept one. */
const hidden = ['mkdir /run/real && cp /usr/sbin/lvm /run/real/lvm', 'mount --bind /dev/null /usr/sbin/lvm'];
const prepare = [
  'modprobe -a virtio_scsi sd_mod dm-crypt',
  'until [ -b /dev/sda ] && [ -b /dev/sdb ] && [ -b /dev/sdc ]; do sleep 0.1; done',
  // As systemd does: what a container mounts for the node is seen by it.
  'mount --make-rshared /',
  'lvm vgcreate --quiet --yes vg0 /dev/sda && lvm vgcreate --quiet --yes vg1 /dev/sdb',
];

describe('a driver in a container', () => {
  const scratch = new Scratch('container');
  let program = '';
  let setup: NodeSetup;

  before(async () => {
    program = await makePod(scratch);
    const key = scratch.join('key');
    writeFileSync(key, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    const encryption = `encryption: { keyFile: ${key} }, sickAfter: 10m`;
    const pools = [
      `thick: { kind: lvm, volumeGroup: vg0, ${encryption} }`,
      `thin: { kind: lvm, volumeGroup: vg1, thinPool: { size: 1Gi }, ${encryption} }`,
    ];
    const config = `defaultPool: thick\npools:\n${pools.map((pool) => `  ${pool}\n`).join('')}`;
    const disk = { bus: 'scsi' } as const;
    const disks = [
      { ...disk, name: 'thick', sizeGiB: 2 },
      { ...disk, name: 'thin', sizeGiB: 2 },
      { ...disk, name: 'whole', sizeGiB: 1 },
    ];
    setup = { config, pools: ['thick', 'thin'], disks, program };
  });
  after(() => scratch[Symbol.dispose]());

  test("runs the node's LVM in the node's namespaces, where there is one", async (t) => {
    await using started = await startNode(t, { ...setup, prepare: [...prepare, ...noting].join(' && ') });
    const { node } = started;
    await doctorSays(node, /ok +LVM +2\.03\.[0-9]+: the host's, in the host's namespaces, without udev\n/);
    await doctorSays(node, /ok +event activation +on; LVM does not look into logical volumes \(scan_lvs = 0\)\n/);
    for (const pool of ['thick', 'thin']) await liveThrough(node, { content: 'ext4', pool });
    await nothingIsLeft(node);
    const own = (await node.vm.run('readlink /proc/1/ns/mnt /proc/1/ns/ipc')).trim().split('\n');
    const seen = new Set((await node.vm.run(`cat ${noted}`)).trim().split('\n'));
    assert.deepEqual([...seen].sort(), own.sort());
  });

  test('runs its own LVM without udev, where the node has none', async (t) => {
    await using started = await startNode(t, { ...setup, prepare: [...prepare, ...hidden].join(' && ') });
    const { node } = started;
    await doctorSays(node, /ok +LVM +2\.03\.[0-9]+: the one beside the driver, without udev\n/);
    for (const pool of ['thick', 'thin']) await liveThrough(node, { content: 'ext4', pool });
    await nothingIsLeft(node);
  });

  test('runs its own LVM without udev, though udev of the node is at work', async (t) => {
    const run = { ...setup, hasUdev: true, prepare: [...prepare, ...hidden].join(' && ') };
    await using started = await startNode(t, run);
    const { node } = started;
    await doctorSays(node, /ok +LVM +2\.03\.[0-9]+: the one beside the driver, without udev\n/);
    for (const pool of ['thick', 'thin']) await liveThrough(node, { content: 'ext4', pool, encryption: 'luks2' });
    await nothingIsLeft(node);
  });

  test('lives beside udev of the node: volumes of all kinds, raw and encrypted', async (t) => {
    const config = `${setup.config}  whole: { kind: disk, device: ${wholeDisk}, sickAfter: 10m }\n`;
    const pools = [...setup.pools, 'whole'];
    await using started = await startNode(t, { ...setup, config, pools, hasUdev: true, prepare: prepare.join(' && ') });
    const { node } = started;
    await doctorSays(node, /ok +LVM +2\.03\.[0-9]+: the host's, in the host's namespaces, with udev\n/);
    for (const pool of ['thick', 'thin']) {
      for (const content of ['ext4', 'block'] as const) {
        await liveThrough(node, { content, pool });
        await liveThrough(node, { content, pool, encryption: 'luks2' });
      }
    }
    const whole = volumeOf(node, { content: 'ext4', pool: 'whole' });
    await whole.create(sizeBytes);
    await whole.use();
    await leaveKeepsake(node, whole);
    await whole.leave();
    await whole.use();
    await assertKeepsake(node, whole);
    await whole.leave();
    await whole.delete();
    await nothingIsLeft(node);
    await udevIsDone(node);
    const links = await node.vm.run('udevadm settle && find /dev/mapper /dev/vg0 /dev/vg1 -xtype l');
    assert.equal(links, '', 'links to devices that are gone');
    assert.equal(await node.vm.run('find /dev/mapper -type b'), '', 'udev makes all there is');
  });

  test('event activation leaves its logical volumes alone', async (t) => {
    await using started = await startNode(t, { ...setup, hasUdev: true, prepare: prepare.join(' && ') });
    const { node } = started;
    const volume = volumeOf(node, { content: 'ext4', pool: 'thick' });
    await volume.create(sizeBytes);
    await volume.use();
    await leaveKeepsake(node, volume);
    await volume.leave();
    await node.kill();
    await node.vm.run(
      'lvm lvcreate --quiet --yes --size 8m --name foreign vg0 && lvm vgchange --quiet --activate n vg0',
    );
    await node.vm.run(
      'echo 1 >/sys/block/sda/device/delete && udevadm settle && rm -rf /run/lvm/pvs_online /run/lvm/vgs_online',
    );
    await node.vm.run('for host in /sys/class/scsi_host/*; do echo "- - -" >$host/scan; done');
    // The group has come back, and what is anybody's is active.
    const active = () => node.vm.run('dmsetup info -c --noheadings -o name | grep ^vg0');
    await eventually(async () => assert.match(await active(), /^vg0-foreign$/m), patienceMs);
    await node.vm.run('udevadm settle');
    assert.equal(await active(), 'vg0-foreign\n');
    await node.start();
    await volume.use();
    await assertKeepsake(node, volume);
  });

  test('a volume group inside a raw block volume is let be, unless LVM of the node is told to look there', async (t) => {
    await using started = await startNode(t, { ...setup, hasUdev: true, prepare: prepare.join(' && ') });
    const { node } = started;
    const volume = volumeOf(node, { content: 'block', pool: 'thick' });
    await volume.create(sizeBytes);
    await volume.use();
    const within = "--quiet --yes --config 'devices{scan_lvs=1}'";
    await node.vm.run(
      [
        `device=/dev/dm-$(lvm lvs --noheadings -o lv_kernel_minor vg0 --select 'lv_name=~${volume.id}' | tr -d ' ')`,
        `lvm vgcreate ${within} nested $device`,
        `lvm lvcreate ${within} --size 8m --name inner nested`,
        `lvm vgchange ${within} --activate n nested`,
      ].join(' && '),
    );
    const shownAgain = async () => {
      await volume.leave();
      await node.vm.run('rm -rf /run/lvm/pvs_online /run/lvm/vgs_online');
      await volume.use();
      return node.vm.run('udevadm settle && dmsetup info -c --noheadings -o name');
    };
    assert.doesNotMatch(await shownAgain(), /nested/);
    await node.vm.run("sed -i 's/# scan_lvs = 0/scan_lvs = 1/' /etc/lvm/lvm.conf");
    await doctorSays(node, /warn +event activation +Set devices \{ scan_lvs = 0 \}/);
    assert.match(await shownAgain(), /^nested-inner$/m);
    await doctorSays(node, /warn +devices inside volumes [\s\S]*\(nested-inner\) on \/dev\/dm-[0-9]+ \(vg0-vol--/);
    assert.match((await node.command(`who ${volume.id}`)).stdout, /^device .* \/dev\/dm-[0-9]+ \(nested-inner\)$/m);
    // What cannot be deactivated stays, and goes with the volume once nobody has it any more.
    await volume.leave();
    await assert.rejects(
      volume.delete(),
      /is in use through \/dev\/dm-[0-9]+, by device \/dev\/dm-[0-9]+ \(nested-inner\)/,
    );
    await node.vm.run(`lvm vgchange ${within} --activate n nested`);
    await volume.delete();
    await nothingIsLeft(node);
  });
});

/** A command that looks gives up a disk that is silent for long, as this one may be on a busy machine. */
async function doctorSays(node: GuestNode, expected: RegExp): Promise<void> {
  await eventually(async () => assert.match((await node.command('doctor')).stdout, expected), patienceMs);
}

/** No semaphore is left that somebody waits for, or nobody. */
async function udevIsDone(node: GuestNode): Promise<void> {
  await eventually(async () => {
    const lines = (await node.vm.run('ipcs --semaphores')).split('\n').filter((line) => /^0x/.test(line));
    assert.deepEqual(lines, []);
  }, patienceMs);
}
