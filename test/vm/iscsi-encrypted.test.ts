import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { VirtualMachine } from './machine/virtual-machine.ts';
import { succeedsWithTarget } from './network-disk/guest.ts';

const script = fileURLToPath(new URL('iscsi/target.sh', import.meta.url));
const prepare = (vm: VirtualMachine) => `sh ${script} install ${vm.iscsiDirectory}`;

test('encrypted volumes on a target of iSCSI are made, opened, grown and let go', async (t) => {
  t.diagnostic(await succeedsWithTarget('iscsi', 'encrypted-in-guest', { prepare }));
});
