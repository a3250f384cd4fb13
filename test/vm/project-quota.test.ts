import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../support/scratch.ts';
import { VolatileDisk } from './disk/volatile-disk.ts';
import { bootVirtualMachine } from './machine/virtual-machine.ts';

const program = fileURLToPath(new URL('quota/in-guest.ts', import.meta.url));
const sizeBytes = 512 << 20;

describe('project quota in a kernel that has it', () => {
  test('counts, limits, and is found again on XFS and ext4', async () => {
    using scratch = new Scratch('vm');
    using xfs = new VolatileDisk(scratch, { name: 'xfs', sizeBytes });
    using ext4 = new VolatileDisk(scratch, { name: 'ext4', sizeBytes });
    await using vm = await bootVirtualMachine({ scratch, disks: [xfs, ext4] });
    await vm.run('mkfs.xfs -q /dev/vda && mkdir -p /xfs && mount -o prjquota /dev/vda /xfs');
    await vm.run('mkfs.ext4 -q -O project,quota -E quotatype=prjquota /dev/vdb');
    await vm.run('mkdir -p /ext4 && mount -o prjquota /dev/vdb /ext4');
    for (const place of ['/xfs /dev/vda', '/ext4 /dev/vdb']) {
      const said = await vm.run(`${process.execPath} ${program} ${place}`);
      assert.match(said, /does what it should/, place);
    }
  });
});
