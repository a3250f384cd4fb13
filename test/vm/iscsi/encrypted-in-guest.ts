/** Runs in the virtual machine: an encrypted logical unit of the kernel's iSCSI target. */
import assert from 'node:assert/strict';
import { before } from 'node:test';
import { iscsiNodeKind } from '../../../src/pool/kinds/iscsi/kind.ts';
import { describeEncryptedDisk } from '../network-disk/encrypted.ts';
import { directory, endSessions, iqn, sessions, target } from './guest.ts';

const context = { kind: 'iscsi', iqn, portals: '127.0.0.1:3260', lun: '1' };

before(() => {
  target('make');
  target('backing', directory, 'first', 'blank');
  target('map', '1', 'first');
});

describeEncryptedDisk({
  kindIn: () => iscsiNodeKind,
  context: { ...context, replacementTimeout: '5' },
  image: `${directory}/first.img`,
  grow: (size) => void target('grow', directory, 'first', size),
  target: {
    patientContext: { ...context, replacementTimeout: '86400' },
    stop: () => void target('stop'),
    start: () => void target('start'),
  },
  nothingConnected: () => assert.deepEqual(sessions(), []),
  cleanUp: endSessions,
});
