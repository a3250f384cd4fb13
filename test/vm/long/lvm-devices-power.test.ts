import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundleForGuest } from '../lvm/bundle.ts';
import { ownGroup } from '../lvm/devices-pool.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const mebibyte = 2 ** 20;
const [first, second] = ['/dev/sda', '/dev/sdb'];
/** On a busy machine; alone it takes some seconds. */
const timeoutMs = 600_000;

/** Which disks the group is made of before its driver is told of both of them. */
const lives: Readonly<Record<string, readonly string[]>> = { made: [], extended: [first] };

/** What every boot begins with. */
const begin = `modprobe -a virtio_scsi sd_mod dm_mod
  until [ -b ${first} ] && [ -b ${second} ]; do sleep 0.1; done
  mkdir -p /node && mount /dev/vda /node`;

/** The disks are blank, and nobody has ever been on this node. */
const clear = `lvm vgremove --force --force --yes ${ownGroup} 2>/dev/null || true
  for disk in ${first} ${second}; do wipefs --quiet --all --force $disk; blkdiscard --zeroout $disk; sync $disk; done
  rm -rf /node/data; mkdir /node/data; sync`;

class Guest {
  readonly vm: VirtualMachine;
  readonly #driver: string;

  constructor(vm: VirtualMachine, driver: string) {
    this.vm = vm;
    this.#driver = driver;
  }

  /** Opens the pool of these disks, as far as the point. */
  drive(devices: readonly string[], point = ''): ReturnType<VirtualMachine['attempt']> {
    const words = `${process.execPath} ${this.#driver} /node/data ${devices.join(',')} ${point}`;
    return this.vm.attempt(words, { timeoutMs });
  }

  async succeed(devices: readonly string[], where: string): Promise<string> {
    const { code, stderr, stdout } = await this.drive(devices);
    assert.equal(code, 0, `${where}: ${stderr}`);
    return stdout;
  }
}

describe(`volume groups of blank disks, when the power goes (HOLDFAST_TEST_SEED=${seed} repeats the choices)`, () => {
  for (const [what, before] of Object.entries(lives)) {
    test(`T06: at each step while they are ${what}, they are finished`, async (t) => {
      using scratch = new Scratch('vm');
      using data = new VolatileDisk(scratch, { name: 'data', sizeBytes: 64 * mebibyte });
      using one = new VolatileDisk(scratch, { name: 'first', sizeBytes: 160 * mebibyte, bus: 'scsi' });
      using two = new VolatileDisk(scratch, { name: 'second', sizeBytes: 160 * mebibyte, bus: 'scsi' });
      await using vm = await bootVirtualMachine({ scratch, disks: [data, one, two] });
      const guest = new Guest(vm, `${await bundleForGuest()}devices-driver.mjs`);
      const random = new SeededRandom(seed);
      await vm.run('mkfs.ext4 -q /dev/vda');
      await vm.run(begin);

      const prepare = async () => {
        await vm.run(clear);
        if (before.length > 0) await guest.succeed(before, 'before');
        await vm.run('sync');
      };
      await prepare();
      const steps: string[] = JSON.parse((await guest.succeed([first, second], 'whole')).trim());
      t.diagnostic(steps.join(' '));
      for (const [index, step] of steps.entries()) {
        const pass = steps.slice(0, index + 1).filter((each) => each === step).length;
        for (const when of ['before', 'after']) {
          const where = `${when} ${step} ${pass}`;
          await prepare();
          assert.notEqual((await guest.drive([first, second], where)).code, 0, where);
          const losses = await vm.cutPower(random);
          t.diagnostic(`${where}: lost ${losses.map(({ lostSectors }) => lostSectors).join(', ')} sectors`);
          await vm.boot();
          await vm.run(begin);
          await guest.succeed([first, second], where);
          const rows = (await vm.run('lvm pvs --noheadings -o pv_name,vg_name')).trim().split(/\s+/);
          assert.deepEqual(rows, [first, ownGroup, second, ownGroup], where);
          assert.equal(await vm.run('ls /node/data/pools/*.disks 2>/dev/null || true'), '', where);
        }
      }
    });
  }
});
