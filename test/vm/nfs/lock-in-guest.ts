/**
 * Runs in the virtual machine: a driver that has a pool on NFS, or wants it.
 * node lock-in-guest.mjs SERVER hold FILE      opens it; then writes to FILE how its lock is, until it is lost
 * node lock-in-guest.mjs SERVER refused        expects that another one has it
 * node lock-in-guest.mjs SERVER take           opens it once that one is gone, and lets it go
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { openNfsBackend } from '../../../src/pool/kinds/nfs/open.ts';
import { openOver } from '../../../src/pool/open.ts';
import { noOptions, testExport } from '../../support/nfs-pool.ts';
import { testSettings } from '../../support/test-pool.ts';

const [, , host = '', role, file = ''] = process.argv;
const directory = `/tmp/lock-${process.pid}`;
mkdirSync(directory);
const own = {
  exported: { ...testExport, host },
  path: 'locked',
  options: noOptions,
  mountOptions: '',
  onDelete: 'delete',
} as const;
const settings = { ...testSettings({ join: (...names) => [directory, ...names].join('/') }), ...own };
/** On a busy machine; the time of the lease is 10 s. */
const takeoverMs = 300_000;

function open(lockTimeoutMs: number) {
  return openOver(() => openNfsBackend({ ...settings, lockTimeoutMs }), settings);
}

if (role === 'hold') {
  const pool = await open(0);
  writeFileSync(file, 'held');
  for (;;) {
    const queue = new DiskQueue('health', 1);
    const answer = await pool.checkHealth(queue, { waitsFor: () => () => undefined }).then(
      () => 'held',
      (error: Error) => `${error.name} ${error.message}`,
    );
    writeFileSync(file, answer);
    if (/lock was lost/.test(answer)) break;
    await delay(1000);
  }
  pool.abandon();
  process.exit(0);
}
if (role === 'refused') {
  await assert.rejects(open(0), /is held by the driver on other since /);
} else {
  const pool = await open(takeoverMs);
  await pool.close();
}
