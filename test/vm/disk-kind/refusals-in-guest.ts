/**
 * Runs in the virtual machine: disks that no pool is made of, none of which is written to.
 * node refusals-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { closeSync, constants, openSync, readSync, rmSync, statSync, symlinkSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { identifyDisk } from '../../../src/kernel/block/disk-identity.ts';
import { listDisks } from '../../../src/kernel/block/disks.ts';
import { openReadOnly } from '../../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../../src/kernel/device.ts';
import { encodeSlot, probeAt, readSlots, slotBytes, slotCount } from '../../../src/pool/kinds/disk/label/slots.ts';
import { Question } from '../../../src/pool/supervisor/question.ts';
import { blankDisk, type DiskTestOptions, guestDisks, openTestDisk, shell } from '../../support/disk-pool.ts';
import { digestOf, stateOf } from '../../support/disk-state.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';

const disks = guestDisks();
const diskNamed = (name: string) => disks.get(name) ?? assert.fail(`there is no disk ${name}`);
const victim = diskNamed('victim');
/** Read as a whole in a moment. */
const small = diskNamed('small');
const sectors = 24 * 2048;
/** In the label. */
const stampSector = 2048 + Number(probeAt) / 512;

/** The pool is not opened, and not one write reaches the disk. */
async function refused(
  scratch: Scratch,
  device: string,
  reason: RegExp,
  path = device,
  options: DiskTestOptions = {},
): Promise<void> {
  const before = stateOf(device);
  await assert.rejects(openTestDisk(scratch, path, options), reason);
  assert.deepEqual(stateOf(device), before);
}

/** As the driver of another node does that has the disk, too. */
function writeLabelAgain(disk: string): void {
  const labelAt = 1 << 20;
  shell(`blockdev --flushbufs ${disk}`);
  const file = openSync(disk, constants.O_RDWR | constants.O_SYNC);
  const bytes = Buffer.alloc(slotCount * slotBytes);
  readSync(file, bytes, 0, bytes.length, labelAt);
  const found = readSlots(bytes);
  assert.ok(found.kind === 'slot');
  const { index, sequence, text } = found.slot;
  writeSync(file, encodeSlot(sequence + 1n, text), 0, undefined, labelAt + ((index + 1) % slotCount) * slotBytes);
  closeSync(file);
  shell(`blockdev --flushbufs ${disk}`);
}

/** Bytes at an offset. */
const write = (text: string, sector: number, disk = small) =>
  `printf '${text}' | dd of=${disk} bs=512 seek=${sector} conv=notrunc,fsync status=none`;

/** What is done with the disk, why it is then refused, and how it is undone. */
const fates: Readonly<Record<string, readonly [shell: string, reason: RegExp, undo?: string]>> = {
  'a filesystem': [`mkfs.ext4 -q ${small}`, /it holds a filesystem \(ext4\)\. .* To keep what it holds: adopt: true\./],
  swap: [`mkswap -q ${small}`, /it holds swap/],
  'a physical volume': [`lvm pvcreate --quiet --yes ${small}`, /it holds LVM2_member/],
  LUKS: [
    `printf x | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ${small} -`,
    /it holds crypto_LUKS/,
  ],
  'a table without partitions': [
    String.raw`printf '\125\252' | dd of=${small} bs=1 seek=510 conv=notrunc,fsync status=none`,
    /it holds/,
  ],
  'data in its first sector': [write('x', 0), /it holds data of an unknown kind/],
  'data behind its first MiB': [write('x', 3000), /it holds data of an unknown kind/],
  'data at the end of its label': [write('x', 4095), /it holds data of an unknown kind/],
  'data before its last MiB': [write('x', sectors - 3500), /it holds data of an unknown kind/],
  'data in its last sector': [write('x', sectors - 1), /it holds data of an unknown kind/],
  'read-only': [`blockdev --setro ${small}`, /it is read-only|Read-only|EROFS|EACCES/, `blockdev --setrw ${small}`],
  'part of a device of device-mapper': [
    `echo 0 2048 linear ${small} 4096 | dmsetup create --noudevsync somebody`,
    /dm-\d+ \(somebody\) is made of it/,
    'dmsetup remove --noudevsync somebody',
  ],
  'open in a process that does not have it exclusively': [
    `setsid sleep infinity <${small} >/dev/null 2>&1 & echo $! >/run/pid`,
    /process \d+ \(sleep.*\) has it open/,
    'kill -9 $(cat /run/pid)',
  ],
  'mounted in another mount namespace': [
    `mkfs.ext4 -q ${small}; mkdir -p /run/elsewhere; rm -f /run/there
     setsid unshare --mount sh -c "mount -o ro ${small} /run/elsewhere && touch /run/there && exec sleep infinity" </dev/null >/dev/null 2>&1 & echo $! >/run/pid
     until [ -e /run/there ]; do sleep 0.1; done; sync`,
    /it is mounted at \/run\/elsewhere|is in use/,
    `kill -9 $(cat /run/pid); until wipefs --quiet --all ${small} 2>/dev/null; do sleep 0.1; done`,
  ],
};

const ext4 = (device: string) => `mkfs.ext4 -q -F ${device}`;

/** What somebody does with a disk of ours that looks to him as if nobody used it. */
const laterUses: Readonly<Record<string, readonly [shell: string, reason: RegExp]>> = {
  'the partition became a physical volume': [
    `lvm pvcreate --quiet --yes ${victim}1`,
    /has the label of a pool, but its partition holds LVM2_member/,
  ],
  'the partition became swap': [`mkswap -q ${victim}1`, /has the label of a pool, but its partition holds swap/],
  'an image with a table of its own was written to it': [
    `truncate --size 40M /run/image
     printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\050\\0\\0\\0\\240\\0\\0' | dd of=/run/image bs=1 seek=446 conv=notrunc status=none
     printf '\\125\\252' | dd of=/run/image bs=1 seek=510 conv=notrunc status=none
     loop=$(losetup --find --show --offset 5242880 --sizelimit 20971520 /run/image); ${ext4('$loop')}; losetup --detach $loop
     dd if=/run/image of=${victim} conv=sparse,notrunc,fsync bs=4096 status=none; rm /run/image`,
    /has the label of a pool, but one half of its partition table is not of Holdfast/,
  ],
  'the partition got a filesystem': [ext4(`${victim}1`), /has the label of a pool, but its partition holds ext4/],
};

describe('a disk that is not taken is not written to', () => {
  let scratch: Scratch;
  beforeEach(() => {
    scratch = new Scratch('refused');
  });
  afterEach(() => scratch[Symbol.dispose]());

  for (const [what, [prepare, reason, undo]] of Object.entries(fates)) {
    test(what, async () => {
      blankDisk(small);
      shell(prepare);
      try {
        await refused(scratch, small, reason);
      } finally {
        if (undo !== undefined) shell(undo);
      }
    });
  }

  test('one of SCSI that has no more than a serial number is known by that, and so are its partitions', async () => {
    const nameOf = async (path: string) => {
      const queue = new DiskQueue('test', 1);
      await using device = await openReadOnly(queue, path);
      const { rdev } = statSync(path, { bigint: true });
      return (await identifyDisk(queue, device, deviceNumber(rdev))).name;
    };
    blankDisk(victim);
    await (await openTestDisk(scratch, victim)).close();
    shell(`blockdev --rereadpt ${victim}; until [ -b ${victim}1 ]; do sleep 0.1; done`);
    assert.equal(await nameOf(victim), 'vpd_pg80 victim');
    assert.equal(await nameOf(`${victim}1`), 'vpd_pg80 victim, partition 1 from sector 2048');
  });

  test('without a name of its own, with the name of another, or none at all', async () => {
    await refused(scratch, diskNamed('nameless'), /nothing names it permanently/);
    await refused(scratch, diskNamed('twin'), /has the same identity/);
    await assert.rejects(openTestDisk(scratch, '/dev/disk/by-id/none'), /there is no \/dev\/disk\/by-id\/none/);
    await assert.rejects(openTestDisk(scratch, '/dev/null'), /is no block device/);
  });

  test('a partition of a disk of ours, whether its pool is open or not; the same disk by another name', async () => {
    blankDisk(victim);
    const pool = await openTestDisk(scratch, victim);
    using other = new Scratch('refused');
    await refused(other, victim, /is in use|is held by process/, victim);
    const link = other.join('link');
    symlinkSync(victim, link);
    await refused(other, victim, /is in use|is held by process/, link);
    await pool.close();
    shell(`blockdev --rereadpt ${victim}; until [ -b ${victim}1 ]; do sleep 0.1; done`);
    await refused(other, victim, /\d+ cannot be taken: it holds data of an unknown kind/, `${victim}1`);
  });

  test('a disk in the place of another, with a pool or without one', async () => {
    blankDisk(victim);
    const first = await openTestDisk(scratch, victim);
    await first.create(volumeSpec('precious', { content: { type: 'block' } }));
    await first.close();
    // The disk that this node knows is gone, and a blank one has its name.
    shell(`dd if=${victim} of=/run/kept bs=1M count=68 status=none`);
    blankDisk(victim);
    await refused(scratch, victim, /this node had pool \S+ here, but \S+ has no pool now. Put the right disk back/);
    using other = new Scratch('refused');
    await (await openTestDisk(other, victim)).close();
    await refused(scratch, victim, /holds pool \S+, but on this node the pool was \S+. Put the right disk back/);
    // It is put back, on a node that does not know it.
    shell(`dd if=/run/kept of=${victim} bs=1M conv=notrunc,fsync status=none; blockdev --flushbufs ${victim}`);
    rmSync('/run/kept');
    using third = new Scratch('refused');
    const again = await openTestDisk(third, victim);
    assert.deepEqual(
      (await again.list(undefined, undefined)).map(({ name }) => name),
      ['precious'],
    );
    await again.close();
  });

  test('a copy of a disk that is there', async () => {
    blankDisk(victim);
    const copy = diskNamed('copy');
    const pool = await openTestDisk(scratch, victim);
    await pool.close();
    shell(`dd if=${victim} of=${copy} bs=1M conv=fsync status=none; blockdev --flushbufs ${copy}`);
    using other = new Scratch('refused');
    await refused(other, copy, new RegExp(`has the label of another disk that is there, too \\(${victim}\\)`));
    await refused(scratch, copy, /has the label of another disk that is there/);
    blankDisk(copy);
  });

  test('a label that cannot be read', async () => {
    blankDisk(victim);
    const slotAt = (index: number) => 2048 + (index * slotBytes) / 512;
    const first = await openTestDisk(scratch, victim);
    await first.create(volumeSpec('precious', { content: { type: 'block' } }));
    await first.close();
    // One of its copies is enough, whichever it is: nothing is taken back.
    for (const index of [0, 1, 0]) {
      shell(`${write('damaged', slotAt(index), victim)}; blockdev --flushbufs ${victim}`);
      const pool = await openTestDisk(scratch, victim);
      assert.deepEqual(
        (await pool.list(undefined, undefined)).map(({ name }) => name),
        ['precious'],
      );
      await pool.close();
    }
    for (const index of [0, 1]) shell(write('damaged', slotAt(index), victim));
    await refused(scratch, victim, /both of its copies are damaged/);
    const newer = encodeSlot(9n, '{"poolId":"unknown"}');
    shell(
      `printf '${newer.toString('hex').replace(/../g, '\\x$&')}' | dd of=${victim} bs=512 seek=${slotAt(1)} conv=notrunc,fsync status=none`,
    );
    await refused(scratch, victim, /cannot be read/);
  });

  for (const [what, [use, reason]] of Object.entries(laterUses)) {
    test(`DK01: one of which ${what} since it was labelled`, async () => {
      blankDisk(victim);
      await (await openTestDisk(scratch, victim)).close();
      shell(`blockdev --rereadpt ${victim}; until [ -b ${victim}1 ]; do sleep 0.1; done`);
      shell(use);
      shell(`blockdev --flushbufs ${victim}`);
      using other = new Scratch('refused');
      await refused(other, victim, reason);
      await refused(scratch, victim, reason);
    });
  }

  test('DK07: one that is there twice, with one name and one label', async () => {
    const [twin, otherTwin] = [diskNamed('twin'), diskNamed('other-twin')];
    blankDisk(twin);
    blankDisk(otherTwin);
    shell(
      `echo offline >/sys/block/${basename(otherTwin)}/device/state; echo 1 >/sys/block/${basename(otherTwin)}/device/delete`,
    );
    await (await openTestDisk(scratch, twin)).close();
    const host = 'for each in /sys/class/scsi_host/host*/scan; do echo "- - -" >$each; done';
    const found = shell(
      `${host}; until grep -ls twin /sys/block/sd*/device/vpd_pg80 | grep -v ${basename(twin)}/; do sleep 0.1; done`,
    );
    const other = `/dev/${/sd[a-z]+/.exec(found)?.[0] ?? assert.fail(found)}`;
    // H5: a disk that only has the same name is no reason to keep the pool closed.
    await (await openTestDisk(scratch, twin)).close();
    shell(`dd if=${twin} of=${other} bs=1M conv=fsync status=none; blockdev --flushbufs ${other}`);
    const reason = /is there twice: \/dev\/sd\S+ has the same identity/;
    // Nothing tells one from the other, until one is written to.
    await assert.rejects(openTestDisk(scratch, twin), reason);
    await refused(scratch, twin, reason);
    await refused(scratch, other, reason);
    blankDisk(other);
    await (await openTestDisk(scratch, twin)).close();
    blankDisk(twin);
  });

  test('DK12: one whose pool another node runs just now', async () => {
    blankDisk(victim);
    await (await openTestDisk(scratch, victim)).close();
    let count = 0;
    const stamp = () => shell(write(`holdfast health ${++count} ${new Date().toISOString()}\\n`, stampSector, victim));
    stamp();
    using other = new Scratch('refused');
    const beats = setInterval(stamp, 1000);
    try {
      await assert.rejects(openTestDisk(other, victim), /another node runs the pool of \/dev\/sd/);
    } finally {
      clearInterval(beats);
    }
    // Who knows it does not wait, and it is nobody's once it was let go.
    await (await openTestDisk(scratch, victim)).close();
    await (await openTestDisk(other, victim)).close();
  });

  test('H4: one whose label another node has written since: nothing of it is shown or changed any more', async () => {
    blankDisk(victim);
    const pool = await openTestDisk(scratch, victim);
    const { id } = await pool.create(volumeSpec('shared', { content: { type: 'block' } }));
    writeLabelAgain(victim);
    const before = digestOf(victim);
    const foreign = /another program has written the label of \/dev\/sd/;
    for (let time = 0; time < 2; time++) {
      await assert.rejects(pool.attach(id, { persistent: false }), foreign);
      await assert.rejects(pool.remove(id), foreign);
    }
    assert.equal(digestOf(victim), before);
    await assert.rejects(pool.checkHealth(new DiskQueue('health', 1), new Question()), foreign);
    await pool.close();
    // It is of whoever opens it next.
    const again = await openTestDisk(scratch, victim);
    await again.remove(id);
    await again.close();
  });

  test('DK09: one with a loop device over it', async () => {
    blankDisk(small);
    const loop = shell(`losetup --find --show --offset 1048576 ${small}`).trim();
    try {
      await refused(scratch, small, /loop\d+ is made of it/);
    } finally {
      shell(`losetup --detach ${loop}`);
    }
  });

  test('DK08: one of which it cannot be seen whether a program has it open is taken only if it is named', async () => {
    const program = process.argv[1] ?? '';
    if (process.env['HOLDFAST_HIDDEN'] !== undefined) return;
    blankDisk(small);
    const words = process.argv.slice(2).join(' ');
    const said = shell(
      `HOLDFAST_HIDDEN=1 unshare --pid --fork --mount-proc --kill-child ${process.execPath} --test-name-pattern='hidden:' ${program} ${words}`,
    );
    assert.match(said, /pass 1\b/);
  });

  test('hidden: a disk that a section matches is not taken without the processes of the node', async () => {
    if (process.env['HOLDFAST_HIDDEN'] === undefined) return;
    const disk = (await listDisks(new DiskQueue('test', 1))).find(({ devicePath }) => devicePath === small);
    assert.ok(disk?.identity !== undefined);
    await refused(scratch, small, /cannot be seen without the processes of the node/, small, {
      identity: disk.identity,
    });
    await (await openTestDisk(scratch, small)).close();
  });

  test('a disk that has become smaller', async () => {
    blankDisk(victim);
    await (await openTestDisk(scratch, victim)).close();
    const cut = diskNamed('twin');
    shell(`dd if=${victim} of=${cut} bs=1M count=24 conv=fsync status=none; blockdev --flushbufs ${cut}`);
    using other = new Scratch('refused');
    await refused(other, cut, /had 71303168 when it was labelled: data is missing/);
    blankDisk(cut);
  });

  test('somebody who only looks at it has it exclusively for a moment: it is waited for', async () => {
    blankDisk(victim);
    await (await openTestDisk(scratch, victim)).close();
    const looker = openSync(victim, constants.O_RDONLY | constants.O_EXCL);
    const opening = openTestDisk(scratch, victim);
    await Promise.race([opening.catch(() => undefined), delay(300)]);
    closeSync(looker);
    await (await opening).close();
  });

  test('whoever is first has the disk: one of two who label it at once', async () => {
    blankDisk(victim);
    const scratches = [scratch, new Scratch('refused')];
    const opened = await Promise.allSettled(scratches.map((each) => openTestDisk(each, victim)));
    const pools = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    assert.equal(pools.length, 1);
    const [refusal] = opened.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
    // By how far the other one is.
    assert.match(refusal ?? '', /is in use|is held by process|cannot be taken: /);
    await pools[0]?.create(volumeSpec('mine', { content: { type: 'block' } }));
    await pools[0]?.close();
    scratches[1]?.[Symbol.dispose]();
  });
});
