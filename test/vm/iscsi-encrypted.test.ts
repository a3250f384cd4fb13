import { test } from 'node:test';
import { prepareIscsi } from './iscsi/prepare.ts';
import { succeedsWithTarget } from './network-disk/guest.ts';

test('encrypted volumes on a target of iSCSI are made, opened, grown and let go', async (t) => {
  t.diagnostic(await succeedsWithTarget('iscsi', 'encrypted-in-guest', { prepare: prepareIscsi }));
});
