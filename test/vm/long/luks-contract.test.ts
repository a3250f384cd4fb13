import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';

const sizeBytes = 6 * 2 ** 30;
const contract = fileURLToPath(new URL('../luks/contract-in-guest.ts', import.meta.url));
const filesystems = { xfs: 'where images share blocks', ext4: 'where they are copied' } as const;

describe('the contract of pools, with every volume encrypted', () => {
  for (const [type, why] of Object.entries(filesystems)) {
    test(`on ${type}, ${why}`, async (t) => {
      using scratch = new Scratch('vm');
      using disk = new VolatileDisk(scratch, { name: type, sizeBytes });
      await using vm = await bootVirtualMachine({ scratch, disks: [disk], memoryMiB: 1536 });
      await vm.run(`mkfs.${type} -q /dev/vda && mkdir -p /${type} && mount /dev/vda /${type} && modprobe dm-crypt`);
      const command = `${process.execPath} ${contract} /${type}`;
      const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs: 3_600_000 });
      assert.equal(code, 0, `${stdout}\n${stderr}`);
      t.diagnostic(/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200));
    });
  }
});
