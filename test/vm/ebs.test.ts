import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { ebs, openCloudPool } from '../cloud/clouds.ts';
import { FakeEc2 } from '../cloud/ec2/fake-ec2.ts';
import type { FakeVolume } from '../cloud/fake-cloud.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { bundlePrograms } from './machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from './machine/virtual-machine.ts';

/*
 * A fake of EC2 plugs NVMe disks with serial numbers into a virtual machine, as AWS does: the kernel's own names for them are used
 * again for other disks.
 */

const machine = 'i-00000001';
const ports = 3;
const gibibyte = 2 ** 30;

class Plugs {
  readonly #vm: VirtualMachine;
  readonly #scratch: Scratch;
  readonly #used = new Map<string, number>();

  constructor(vm: VirtualMachine, scratch: Scratch) {
    this.#vm = vm;
    this.#scratch = scratch;
  }

  created({ id, sizeGiB }: FakeVolume): void {
    writeFileSync(this.#scratch.join(id), '');
    truncateSync(this.#scratch.join(id), sizeGiB * gibibyte);
  }

  async plug({ id }: FakeVolume): Promise<void> {
    const taken = new Set(this.#used.values());
    const port = Array.from({ length: ports }, (_, at) => at).find((at) => !taken.has(at)) ?? assert.fail();
    this.#used.set(id, port);
    await this.#vm.plugNvme({ name: nameOf(id), serial: id.replace('-', ''), path: this.#scratch.join(id), port });
  }

  async unplug({ id }: FakeVolume): Promise<void> {
    await this.#vm.unplugNvme({ name: nameOf(id) });
    this.#used.delete(id);
  }
}

const nameOf = (id: string) => `d${id.slice(-6)}`;

describe('EBS volumes in a virtual machine', () => {
  test('are found by their serial numbers, formatted once, and never taken for one another', async () => {
    const directory = await bundlePrograms('cloud', ['node-in-guest']);
    using scratch = new Scratch('vm');
    await using vm = await bootVirtualMachine({ scratch, nvmePorts: ports });
    await vm.run('modprobe nvme');
    await using ec2 = await FakeEc2.start();
    const plugs = new Plugs(vm, scratch);
    ec2.plugs = {
      created: (volume) => plugs.created(volume),
      plug: (volume) => plugs.plug(volume),
      unplug: (volume) => plugs.unplug(volume),
    };
    ec2.instance(machine);
    const pool = await openCloudPool(ebs, scratch, ec2.url, { pace: { waitMs: 120_000 } });
    const publisher = pool.cluster?.publisher ?? assert.fail();
    const make = (name: string) => pool.create(volumeSpec(name, { sizeBytes: 1n << 30n }));
    const contextOf = (record: VolumeRecord) => JSON.stringify({ kind: 'aws-ebs', ...pool.cluster?.contextOf(record) });
    const node = (work: string, record: VolumeRecord, published: object = {}) =>
      vm.run(
        `${process.execPath} ${directory}node-in-guest.mjs ${work} ${record.id} '${contextOf(record)}' '${JSON.stringify(published)}'`,
      );
    const attach = (record: VolumeRecord) => publisher.publish(record, machine);
    const detach = (record: VolumeRecord) => publisher.unpublish(record.id, machine);

    const [one, two, three] = [await make('one'), await make('two'), await make('three')];
    const first = JSON.parse(await node('up', one, await attach(one)));
    const second = JSON.parse(await node('up', two, await attach(two)));
    assert.deepEqual([first.content, second.content], [one.id, two.id]);
    assert.notEqual(first.device, second.device);

    await node('down', one);
    await detach(one);
    assert.match(await node('refused', one), /^UNAVAILABLE .* no disk with serial number vol/);

    // The third gets the name that the first had.
    const third = JSON.parse(await node('up', three, await attach(three)));
    assert.deepEqual(third, { device: first.device, content: three.id });
    const again = JSON.parse(await node('up', one, await attach(one)));
    assert.equal(again.content, one.id);
    assert.notEqual(again.device, first.device);

    for (const record of [one, two, three]) {
      await node('down', record);
      await detach(record);
      await pool.remove(record.id);
    }
    assert.equal((await vm.run('ls /sys/class/nvme')).trim(), '');
    assert.equal((await vm.run('ls /run/ebs/data/volumes')).trim(), '');
    await pool.close();
  });
});
