import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { VirtualMachine } from '../machine/virtual-machine.ts';
import { succeedsWithTarget } from '../network-disk/guest.ts';

const script = fileURLToPath(new URL('../iscsi/target.sh', import.meta.url));
const hasNewerKernel = true;

describe('disks over a network, with the kernel of the next Debian', () => {
  test('nvme-tcp: a target that wants in-band authentication', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'authentication-in-guest', { hasNewerKernel }));
  });

  test('nvme-tcp: all else', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'node-in-guest', { hasNewerKernel }));
  });

  test('iscsi', async (t) => {
    const prepare = (vm: VirtualMachine) => `sh ${script} install ${vm.iscsiDirectory}`;
    t.diagnostic(await succeedsWithTarget('iscsi', 'node-in-guest', { hasNewerKernel, prepare }));
  });
});
