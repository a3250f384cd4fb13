import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../support/scratch.ts';
import { VolatileDisk } from './disk/volatile-disk.ts';
import { bootVirtualMachine, type VirtualMachine } from './machine/virtual-machine.ts';

const sizeBytes = 2 ** 31;

/** A machine with an XFS at /xfs and an ext4 at /ext4, both of which enforce project quota. */
async function withQuota(work: (vm: VirtualMachine) => Promise<void>): Promise<void> {
  using scratch = new Scratch('vm');
  using xfs = new VolatileDisk(scratch, { name: 'xfs', sizeBytes });
  using ext4 = new VolatileDisk(scratch, { name: 'ext4', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [xfs, ext4] });
  await vm.run('mkfs.xfs -q /dev/vda && mkdir -p /xfs && mount -o prjquota /dev/vda /xfs');
  await vm.run('mkfs.ext4 -q -O project,quota -E quotatype=prjquota /dev/vdb');
  await vm.run('mkdir -p /ext4 && mount -o prjquota /dev/vdb /ext4');
  await work(vm);
}

function program(name: string): string {
  return `${process.execPath} ${fileURLToPath(new URL(`quota/${name}`, import.meta.url))}`;
}

describe('project quota in a kernel that has it', () => {
  test('counts, limits, and is found again on XFS and ext4', async () => {
    await withQuota(async (vm) => {
      for (const place of ['/xfs', '/ext4']) {
        const said = await vm.run(`${program('kernel-in-guest.ts')} ${place}`);
        assert.match(said, /does what it should/, place);
      }
    });
  });

  test('directory pools keep their contract with it, and the sizes of their volumes', async (t) => {
    await withQuota(async (vm) => {
      const { code, stderr, stdout } = await vm.attempt(`${program('pool-in-guest.ts')} /xfs /ext4`);
      assert.equal(code, 0, `${stdout}\n${stderr}`);
      t.diagnostic(/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200));
    });
  });
});
