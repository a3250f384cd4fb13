/** Runs in the virtual machine: an encrypted namespace of the kernel's NVMe target. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { disconnectNvme, nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { describeEncryptedDisk } from '../network-disk/encrypted.ts';

const nqn = 'nqn.2026-01.dev.holdfast:target';
const uuid = '11111111-1111-4111-8111-111111111111';
const directory = '/target';
const context = { kind: 'nvme-tcp', nqn, portals: '127.0.0.1:4420', uuid, reconnectDelay: '1' };
const script = fileURLToPath(new URL('../../../test/vm/nvme/target.sh', import.meta.url));
const target = (...words: string[]) => void execFileSync('sh', [script, ...words]);
const controllers = () => nvmeSubsystem(nqn).controllers;

before(() => {
  target('make', directory);
  target('namespace', directory, '1', uuid, 'blank');
});

describeEncryptedDisk({
  kind: nvmeTcpNodeKind,
  context: { ...context, ctrlLossTmo: '5' },
  patientContext: { ...context, ctrlLossTmo: '86400' },
  image: `${directory}/1.img`,
  grow: (size) => target('grow', directory, '1', size),
  stop: () => target('stop'),
  start: () => target('start'),
  nothingConnected: () => assert.deepEqual(controllers(), []),
  async cleanUp() {
    for (const controller of controllers()) await disconnectNvme(new DiskQueue('after', 1), controller);
  },
});
