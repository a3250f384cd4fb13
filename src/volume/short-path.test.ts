import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortPath } from './short-path.ts';

const uid = '1f0c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5';
const pv = 'pvc-0a1b2c3d-1111-4222-8333-444455556666';

for (const [path, short] of [
  ['/srv/data', '/srv/data'],
  [`/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~csi/${pv}/mount`, `…/pods/${uid}/…`],
  [
    `/var/lib/kubelet/plugins/kubernetes.io/csi/x.dev/${'ab'.repeat(32)}/globalmount`,
    '…t/plugins/kubernetes.io/csi/x.dev/abababab…/globalmount',
  ],
  [`/${'x'.repeat(200)}/end`, `…${'x'.repeat(51)}/end`],
] as const) {
  test(`${path.slice(0, 70)} is shown as ${short}`, () => {
    assert.equal(shortPath(path), short);
    assert.ok(short.length <= 56);
  });
}
