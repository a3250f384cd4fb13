import { test } from 'node:test';
import { nfsServer } from '../nfs/server.ts';
import { passesSanity } from '../node/sanity.ts';

test('csi-sanity, against a pool on NFS', (t) =>
  passesSanity(t, {
    pool: '{ kind: nfs, server: 10.77.0.1, share: /export, sickAfter: 10m }',
    prepare: (vm) => nfsServer(vm, 'make /dev/vdb'),
  }));
