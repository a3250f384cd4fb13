import { test } from 'node:test';
import { modes } from '../../../csi-sanity/expectations.ts';
import { nfsServer } from '../nfs/server.ts';
import { passesSanity } from '../node/sanity.ts';

/** A home knows no nodes: only Kubernetes can say that there is none of this name. */
const unknownNode =
  'Controller Service [Controller Server] ControllerPublishVolume should fail when the node does not exist';
const everything = modes.find(({ name }) => name === 'ext4')?.expected;

test('csi-sanity, against a pool on NFS', (t) =>
  passesSanity(t, {
    // All volumes are thin.
    files: { testvolumemutableparameters: 'undelete: "0"\n' },
    pool: '{ kind: nfs, server: 10.77.0.1, share: /export, sickAfter: 10m }',
    prepare: (vm) => nfsServer(vm, 'make /dev/vdb'),
    leftOut: [unknownNode],
    expected: everything && { ...everything, passed: everything.passed - 1, skipped: { '': 1 } },
  }));
