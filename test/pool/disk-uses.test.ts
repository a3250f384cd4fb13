import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { openDeviceAlone } from '../../src/kernel/block/block.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { noteFormat } from '../../src/pool/kinds/iscsi/connections.ts';
import { ConnectionNotes } from '../../src/pool/network-disk/connection-notes.ts';
import { DiskUses } from '../../src/pool/network-disk/disk-uses.ts';
import { NetworkDiskSide } from '../../src/pool/network-disk/side.ts';
import type { NetworkDevice, Target } from '../../src/pool/network-disk/target.ts';
import { TargetState } from '../../src/pool/network-disk/target-state.ts';
import type { VolumeOnNode } from '../../src/pool/node-side.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 2);
const wwid = 'naa.6001405aabbccddeeff0011223344556';

/** Devices of one disk, and of another one, as sysfs shows those of several sessions. */
class Devices implements Disposable {
  readonly #scratch = new Scratch('uses');
  readonly root = this.#scratch.join('sys');

  /** @param name permanent */
  add(file: string, name: string): NetworkDevice {
    const image = sparseFile(this.#scratch.join(file), 8);
    const devicePath = attachDisk(image);
    const device = deviceNumber(statSync(devicePath, { bigint: true }).rdev);
    const number = `${device.major}:${device.minor}`;
    const directory = this.join('sys/block', basename(devicePath));
    mkdirSync(`${directory}/device`, { recursive: true });
    writeFileSync(`${directory}/dev`, `${number}\n`);
    writeFileSync(`${directory}/device/wwid`, `${name}\n`);
    mkdirSync(this.join('sys/dev/block'), { recursive: true });
    symlinkSync(directory, this.join('sys/dev/block', number));
    return { name: basename(devicePath), devicePath, device, sizeBytes: 8n << 20n };
  }

  mount({ devicePath }: NetworkDevice): Disposable {
    execFileSync('mkfs.ext4', ['-q', devicePath]);
    const place = this.join('mounted');
    mkdirSync(place);
    execFileSync('mount', [devicePath, place]);
    return { [Symbol.dispose]: () => void execFileSync('umount', [place]) };
  }

  join(...parts: string[]): string {
    return this.#scratch.join(...parts);
  }

  [Symbol.dispose](): void {
    this.#scratch[Symbol.dispose]();
  }
}

/** A target with one volume, which is there without a connection. */
async function targetOf(devices: Devices, uses: DiskUses, device: NetworkDevice): Promise<NetworkDiskSide<never>> {
  const iqn = `iqn.2026-01.org.example:${device.name}`;
  const done = async () => undefined;
  const target: Target<never> = {
    ...{ name: iqn, nameKey: 'iqn', noun: 'logical unit', lossKey: 'replacementTimeout' },
    ...{ connect: done, disconnect: done, rescan: done, connections: () => [] },
    ...{ devicesOf: () => [device], devicesOfOurs: () => [] },
    notThere: () => assert.fail(),
    isTwice: () => assert.fail(),
  };
  const dataDirectory = devices.join('data');
  const notes = await ConnectionNotes.open<never>(queue, dataDirectory, iqn, {
    ...noteFormat,
    schema: noteFormat.schema.transform((note) => ({ ...note, connections: [] })),
  });
  const context = { server: iqn, dataDirectory, queue, log: quiet };
  return new NetworkDiskSide('iscsi', context, target, new TargetState(notes, uses));
}

const volume = (handle: string): VolumeOnNode => ({
  handle: handle as VolumeOnNode['handle'],
  content: { type: 'block' },
  accessModes: [],
  provisioning: 'thick',
  context: {},
});

async function attach(side: NetworkDiskSide<never>, handle: string): Promise<void> {
  const attachment = await side.attach(volume(handle), { persistent: false });
  await attachment.release();
}

const refused = (words: RegExp) => (error: unknown) => error instanceof FailedPrecondition && words.test(error.message);

describe('a disk of a network that is on the node through two devices', () => {
  test('is refused as long as its filesystem is mounted through the other', async () => {
    using devices = new Devices();
    const [own, other] = [devices.add('unit', wwid), devices.add('unit', wwid)];
    const side = await targetOf(devices, new DiskUses(devices.root), own);
    {
      using _mounted = devices.mount(other);
      await assert.rejects(attach(side, 'a'), refused(new RegExp(`${other.name} is the same .* its ext4 is in use`)));
      assert.deepEqual(await side.attached(volume('a')), []);
    }
    await attach(side, 'a');
  });

  test('is refused as long as a program has the other for itself', async () => {
    using devices = new Devices();
    const [own, other] = [devices.add('unit', wwid), devices.add('unit', wwid)];
    const side = await targetOf(devices, new DiskUses(devices.root), own);
    {
      await using _alone = await openDeviceAlone(queue, other.devicePath);
      await assert.rejects(attach(side, 'a'), refused(/a program has it/));
    }
    await attach(side, 'a');
  });

  test('is refused to the second of two volumes, also when both come at once', async () => {
    using devices = new Devices();
    const uses = new DiskUses(devices.root);
    const sides = [
      await targetOf(devices, uses, devices.add('unit', wwid)),
      await targetOf(devices, uses, devices.add('unit', wwid)),
    ];
    const outcomes = await Promise.allSettled(sides.map((side, index) => attach(side, `volume-${index}`)));
    const first = outcomes.findIndex(({ status }) => status === 'fulfilled');
    const [one, two] = [sides[first] ?? assert.fail(), sides[1 - first] ?? assert.fail()];
    const again = () => attach(two, `volume-${1 - first}`);
    await assert.rejects(again(), refused(new RegExp(`volume volume-${first} uses it`)));
    await attach(one, `volume-${first}`);
    await one.detach(volume(`volume-${first}`));
    await again();
  });

  test('is used if the other is idle, and by one volume at a time through the same device', async () => {
    using devices = new Devices();
    const side = await targetOf(devices, new DiskUses(devices.root), devices.add('unit', wwid));
    devices.add('unit', wwid);
    await attach(side, 'a');
    await attach(side, 'a');
    await assert.rejects(attach(side, 'b'), refused(/volume a uses it/));
    await side.detach(volume('a'));
    await attach(side, 'b');
  });

  test('is used through a map over both, and refused if there is a third that is in use', async () => {
    using devices = new Devices();
    const uses = new DiskUses(devices.root);
    const paths = [devices.add('unit', wwid), devices.add('unit', wwid)];
    const map = { ...devices.add('unit', 'mpath'), paths };
    // Each path is in use by the map.
    await using _alone = await openDeviceAlone(queue, paths[0]?.devicePath ?? '');
    await attach(await targetOf(devices, uses, map), 'a');
    const third = devices.add('unit', wwid);
    await assert.rejects(attach(await targetOf(devices, uses, third), 'b'), refused(/volume a uses it/));
    await using _third = await openDeviceAlone(queue, third.devicePath);
    await assert.rejects(attach(await targetOf(devices, uses, map), 'a'), refused(/a program has it/));
  });

  test('has nothing to do with other disks, and with those that have no name', async () => {
    using devices = new Devices();
    const uses = new DiskUses(devices.root);
    using _mounted = devices.mount(devices.add('other', 'naa.6001405000000000000000000000000f'));
    await attach(await targetOf(devices, uses, devices.add('unit', wwid)), 'a');
    const nameless = [devices.add('unit', ''), devices.add('unit', '')] as const;
    for (const { name } of nameless) rmSync(devices.join('sys/block', name, 'device'), { recursive: true });
    for (const each of nameless) await attach(await targetOf(devices, uses, each), `volume-${each.name}`);
  });
});
