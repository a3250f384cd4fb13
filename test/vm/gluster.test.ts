import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { VirtualMachine } from './machine/virtual-machine.ts';
import { succeedsWithTarget } from './network-disk/guest.ts';

const script = fileURLToPath(new URL('gluster/server.sh', import.meta.url));
const prepare = (vm: VirtualMachine) => `sh ${script} install ${vm.glusterDirectory}`;

describe('volumes on GlusterFS', () => {
  test('are mounted, shown and let go; their clients and servers fail', async (t) => {
    t.diagnostic(await succeedsWithTarget('gluster', 'node-in-guest', { prepare }));
  });

  test('leave nothing, wherever the node service is killed in its container, which takes no volume from a pod', async (t) => {
    t.diagnostic(await succeedsWithTarget('gluster', 'killed-in-guest', { prepare }));
  });
});
