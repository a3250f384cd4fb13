import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

const sizeBytes = 4 * 2 ** 30;
const timeoutMs = 1_800_000;
const mount = 'mkdir -p /xfs && mount /dev/vda /xfs && modprobe dm-crypt';
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? 1);

/** A machine with an XFS at /xfs. */
async function withDisk(work: (vm: VirtualMachine) => Promise<void>): Promise<void> {
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'xfs', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run(`mkfs.xfs -q /dev/vda && ${mount}`);
  await work(vm);
}

async function succeeds(vm: VirtualMachine, name: string, ...args: string[]): Promise<string> {
  const path = fileURLToPath(new URL(`../luks/${name}`, import.meta.url));
  const { code, stderr, stdout } = await vm.attempt([process.execPath, path, ...args].join(' '), { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}

describe('encryption with LUKS, cut short', () => {
  test('T01 T04: kill -9 at each step of its own leaves nothing, and the call can be made again', async (t) => {
    await withDisk(async (vm) => {
      t.diagnostic((await succeeds(vm, 'crash-in-guest.ts', '/xfs/crash')).trim().split('\n').at(-1) ?? '');
    });
  });

  test('T05: power cuts take nothing of what was answered or synced', async (t) => {
    t.diagnostic(`HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
    await withDisk(async (vm) => {
      const random = new SeededRandom(seed);
      for (const count of ['1', '2', '3']) {
        await succeeds(vm, 'power-in-guest.ts', '/xfs/power', 'make', count);
        await vm.cutPower(random);
        await vm.boot();
        await vm.run(mount);
        await succeeds(vm, 'power-in-guest.ts', '/xfs/power', 'look', count);
      }
    });
  });
});
