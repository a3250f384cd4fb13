import { describe, test } from 'node:test';
import { prepareIscsi } from '../iscsi/prepare.ts';
import { succeedsWithTarget } from '../network-disk/guest.ts';

const hasNewerKernel = true;

describe('disks over a network, with the kernel of the next Debian', () => {
  test('nvme-tcp: a target that wants in-band authentication', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'authentication-in-guest', { hasNewerKernel }));
  });

  test('nvme-tcp: all else', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'node-in-guest', { hasNewerKernel }));
  });

  test('iscsi', async (t) => {
    t.diagnostic(await succeedsWithTarget('iscsi', 'node-in-guest', { hasNewerKernel, prepare: prepareIscsi }));
  });
});
