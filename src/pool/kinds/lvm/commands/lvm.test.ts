import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { Lvm } from './lvm.ts';

test('lvm 13: a command that takes long is told of, while all others wait for it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-lvm-'));
  try {
    const gate = join(directory, 'gate');
    execFileSync('mkfifo', [gate]);
    const program = join(directory, 'lvm');
    // It ends when the test writes to the gate.
    writeFileSync(program, `#!/bin/sh\nread _ <${gate}\n`, { mode: 0o755 });
    const lvm = new Lvm({ place: 'own', program, before: [], environment: {} }, new DiskQueue('test', 1), 1);
    const told = new Promise<string>((resolve) => {
      lvm.whenSlow = resolve;
    });
    const changing = lvm.change(['lvchange', '--activate', 'n', 'vg0/a']);
    assert.equal(await told, 'lvchange');
    writeFileSync(gate, '\n');
    await changing;
  } finally {
    rmSync(directory, { recursive: true });
  }
});
