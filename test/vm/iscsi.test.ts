import { describe, test } from 'node:test';
import { prepareIscsi, prepareMultipath } from './iscsi/prepare.ts';
import { succeedsWithTarget } from './network-disk/guest.ts';

describe('volumes on a target of iSCSI', () => {
  test('are logged in to, shown, grown and let go', async (t) => {
    t.diagnostic(await succeedsWithTarget('iscsi', 'node-in-guest', { prepare: prepareIscsi }));
  });

  test('go on while another target is gone, and lose nothing by a restart of their own', async (t) => {
    t.diagnostic(await succeedsWithTarget('iscsi', 'gone-in-guest', { prepare: prepareIscsi }));
  });

  test('leave nothing, wherever the node service is killed, with the open-iscsi of the host of its container', async (t) => {
    t.diagnostic(await succeedsWithTarget('iscsi', 'killed-in-guest', { prepare: prepareIscsi, contained: true }));
  });

  test('use all of its portals where the node has multipathd', async (t) => {
    t.diagnostic(await succeedsWithTarget('iscsi', 'paths-in-guest', { prepare: prepareMultipath, udev: true }));
  });

  test('leave no map either, wherever the node service is killed, with the multipathd of the host of its container', async (t) => {
    const options = { prepare: prepareMultipath, udev: true, contained: true } as const;
    t.diagnostic(await succeedsWithTarget('iscsi', 'paths-killed-in-guest', options));
  });
});
