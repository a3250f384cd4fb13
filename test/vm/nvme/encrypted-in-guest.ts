/** Runs in the virtual machine: an encrypted namespace of the kernel's NVMe target. */
import assert from 'node:assert/strict';
import { before } from 'node:test';
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { describeEncryptedDisk } from '../network-disk/encrypted.ts';
import { context, controllers, directory, endConnections, target, uuid } from './guest.ts';

const quick = { ...context, reconnectDelay: '1' };

before(() => {
  target('make', directory);
  target('namespace', directory, '1', uuid, 'blank');
});

describeEncryptedDisk({
  kindIn: () => nvmeTcpNodeKind,
  context: { ...quick, ctrlLossTmo: '5' },
  image: `${directory}/1.img`,
  grow: (size) => void target('grow', directory, '1', size),
  target: {
    patientContext: { ...quick, ctrlLossTmo: '86400' },
    stop: () => void target('stop'),
    start: () => void target('start'),
  },
  nothingConnected: () => assert.deepEqual(controllers(), []),
  cleanUp: endConnections,
});
