import { test } from 'node:test';
import { passesSanity } from '../node/sanity.ts';

test('csi-sanity, against a pool in a volume group', (t) =>
  passesSanity(t, {
    pool: '{ kind: lvm, volumeGroup: vg0, sickAfter: 10m }',
    prepare: 'lvm vgcreate --yes vg0 /dev/vdb',
  }));
