import { test } from 'node:test';
import { passesSanity } from '../node/sanity.ts';

test('csi-sanity, against a thin pool in a volume group', (t) =>
  passesSanity(t, {
    pool: '{ kind: lvm, volumeGroup: vg0, thinPool: { size: 3Gi }, sickAfter: 10m }',
    prepare: 'lvm vgcreate --yes vg0 /dev/vdb',
    files: { testvolumemutableparameters: 'provisioning: thin\nundelete: "0"\n' },
  }));
