import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import type { VolumeRecord } from '../../../src/volume/record.ts';
import { openCloudPool, type TestCloud } from '../../cloud/clouds.ts';
import type { FakeVolume } from '../../cloud/fake-cloud.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import type { PluggedDisk } from '../machine/qemu.ts';
import { bootVirtualMachine, type MachineOptions, type VirtualMachine } from '../machine/virtual-machine.ts';

/** A machine of a cloud: how disks are plugged into it. */
export interface CloudMachine {
  readonly options: Pick<MachineOptions, 'hasScsi' | 'nvmePorts'>;
  /** A command that loads the modules for its disks. */
  readonly prepare: string;
  /** A command that shows its disks. */
  readonly show: string;
  /** @param port the first that is free */
  disk(serial: string, names: { readonly name: string; readonly path: string; readonly port: number }): PluggedDisk;
}

class Plugs {
  readonly #vm: VirtualMachine;
  readonly #scratch: Scratch;
  readonly #cloud: CloudMachine;
  readonly #used = new Map<string, number>();
  readonly #serialOf: (id: string) => string;

  constructor(vm: VirtualMachine, scratch: Scratch, cloud: CloudMachine, serialOf: (id: string) => string) {
    this.#vm = vm;
    this.#scratch = scratch;
    this.#cloud = cloud;
    this.#serialOf = serialOf;
  }

  created(volume: FakeVolume): void {
    writeFileSync(this.#pathOf(volume), '');
    truncateSync(this.#pathOf(volume), volume.sizeGiB * 2 ** 30);
  }

  async plug(volume: FakeVolume): Promise<void> {
    const taken = new Set(this.#used.values());
    const port = [0, 1, 2].find((at) => !taken.has(at)) ?? assert.fail();
    this.#used.set(volume.id, port);
    const names = { name: nameOf(volume), path: this.#pathOf(volume), port };
    await this.#vm.plug(this.#cloud.disk(this.#serialOf(volume.id), names));
  }

  async unplug(volume: FakeVolume): Promise<void> {
    await this.#vm.unplug({ name: nameOf(volume) });
    this.#used.delete(volume.id);
  }

  #pathOf({ id }: FakeVolume): string {
    return this.#scratch.join(this.#serialOf(id));
  }
}

/** Kubernetes repeats what failed, too. */
async function repeated<T>(call: () => Promise<T>): Promise<T> {
  let answer: Promise<T> | undefined;
  await eventually(async () => {
    answer = call();
    await answer;
  }, 120_000);
  return await (answer ?? assert.fail());
}

const nameOf = ({ id }: FakeVolume) => `d${id.slice(-6)}`;

/**
 * A fake of a cloud plugs disks into a virtual machine: they are found by what they say themselves, formatted once, and never taken
 * for one another, though the kernel gives a name again to another disk.
 */
export async function liveInMachine(cloud: TestCloud, machine: CloudMachine): Promise<void> {
  const [instance] = cloud.machines;
  const directory = await bundlePrograms('cloud', ['node-in-guest']);
  using scratch = new Scratch('vm');
  await using vm = await bootVirtualMachine({ scratch, ...machine.options });
  await vm.run(machine.prepare);
  await using fake = await cloud.start();
  const plugs = new Plugs(vm, scratch, machine, (id) => fake.serialOf(id));
  fake.plugs = {
    created: (volume) => plugs.created(volume),
    plug: (volume) => plugs.plug(volume),
    unplug: (volume) => plugs.unplug(volume),
  };
  fake.instance(instance);
  const pool = await openCloudPool(cloud, scratch, fake.url, { pace: { waitMs: 120_000 } });
  const publisher = pool.cluster?.publisher ?? assert.fail();
  fake.troubles = {
    lostAnswers: 0.03,
    droppedRequests: 0.02,
    throttled: 0.05,
    failed: 0.03,
    lateMs: 1_000,
    workMs: 500,
  };
  const make = (name: string) => {
    const spec = volumeSpec(name, { sizeBytes: 1n << 30n });
    return repeated(async () => (await pool.find(spec.id)) ?? (await pool.create(spec)));
  };
  const contextOf = (record: VolumeRecord) => JSON.stringify({ kind: cloud.kind, ...pool.cluster?.contextOf(record) });
  const node = (work: string, record: VolumeRecord, published: object = {}) =>
    vm.run(
      `${process.execPath} ${directory}node-in-guest.mjs ${cloud.kind} ${work} ${record.id} '${contextOf(record)}' '${JSON.stringify(published)}'`,
    );
  const attach = (record: VolumeRecord) => repeated(() => publisher.publish(record, instance));
  const detach = (record: VolumeRecord) => repeated(() => publisher.unpublish(record.id, instance));

  const [one, two, three] = [await make('one'), await make('two'), await make('three')];
  const first = JSON.parse(await node('up', one, await attach(one)));
  const second = JSON.parse(await node('up', two, await attach(two)));
  assert.deepEqual([first.content, second.content], [one.id, two.id]);
  assert.notEqual(first.device, second.device);

  await node('down', one);
  await detach(one);
  assert.match(await node('refused', one), /^UNAVAILABLE .* no disk with serial number/);

  // The third gets the name that the first had.
  const third = JSON.parse(await node('up', three, await attach(three)));
  assert.deepEqual(third, { device: first.device, content: three.id });
  const again = JSON.parse(await node('up', one, await attach(one)));
  assert.equal(again.content, one.id);
  assert.notEqual(again.device, first.device);

  for (const record of [one, two, three]) {
    await node('down', record);
    await detach(record);
    await repeated(() => pool.remove(record.id));
  }
  assert.equal((await vm.run(machine.show)).trim(), '');
  assert.equal((await vm.run('ls /run/cloud/data/volumes')).trim(), '');
  await pool.close();
}
