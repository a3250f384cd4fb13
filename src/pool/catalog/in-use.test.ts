import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { volumeIdFor } from '../../volume/id.ts';
import type { Backend } from '../backend.ts';
import type { Attached } from '../pool.ts';
import { findUse } from './in-use.ts';

const id = volumeIdFor('node', 'test', 'v');
/** There is none of that number. */
const device: Attached = {
  kind: 'device',
  devicePath: '/dev/dm-1048575',
  device: { major: 4095, minor: 1048575 },
  readonly: false,
};

/** A volume with a device that is not visible. @param isOpen a program has it open, so it stays */
function backendOf(detaching: 'automatic' | 'explicit', isOpen: boolean) {
  const there = [device];
  const attacher = {
    attached: async () => [...there],
    inUse: async () => [...there],
    detach: async () => {
      if (!isOpen) there.pop();
    },
  };
  return { backend: { attacher, queue: new DiskQueue('test', 1), traits: { detaching } } as unknown as Backend };
}

test('lvm 13: a device that somebody has activated, and nobody uses, keeps no volume in use', async () => {
  assert.equal(await findUse(backendOf('explicit', false), id), undefined);
  assert.equal(await findUse(backendOf('explicit', true), id), device);
  // It goes automatically, or it is open.
  assert.equal(await findUse(backendOf('automatic', false), id), device);
});
