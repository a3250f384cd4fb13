/** Runs in the virtual machine, with a kernel whose NVMe target wants in-band authentication. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { mountCapability } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import { context, directory, endConnections, nothingLeft as nothingLeftOf, target, uuid } from './guest.ts';

const hostId = '66666666-6666-4666-8666-666666666666';
const hostNqn = `nqn.2014-08.org.nvmexpress:uuid:${hostId}`;
const volume_context = {
  ...context,
  ...{ hostNqn, hostId, ctrlLossTmo: '600', reconnectDelay: '1' },
};

/** The kubelet waits so long for an answer. The kernel needs 60 s to notice that its key was refused. */
const kubeletMs = 120_000;
const xfs = mountCapability('SINGLE_NODE_WRITER', [], 'xfs');

/** As `nvme gen-dhchap-key` makes one (NVMe Base Specification 2.0, 8.13.5.8). */
function newKey(): string {
  const secret = randomBytes(32);
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(crc32(secret));
  return `DHHC-1:00:${Buffer.concat([secret, sum]).toString('base64')}:`;
}

const [hostKey, targetKey, anotherKey] = [newKey(), newKey(), newKey()];
let harness: ContextHarness;

before(() => {
  target('make', directory);
  target('namespace', directory, '1', uuid, 'xfs');
});
beforeEach(async () => {
  harness = await ContextHarness.open([nvmeTcpNodeKind]);
});
afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await endConnections();
});

const nothingLeft = () => nothingLeftOf(harness);

/** No file of the driver and no line of the kernel's log has a key. */
function noKeyIsShown(): void {
  const log = execFileSync('dmesg', { encoding: 'utf8', maxBuffer: 1 << 26 });
  const found = execFileSync('sh', ['-c', 'grep -rl "DHHC-1:00" "$1" /run || true', 'sh', harness.scratch.path]);
  for (const key of [hostKey, targetKey, anotherKey]) assert.ok(!log.includes(key.slice('DHHC-1:00:'.length, -1)));
  assert.equal(found.toString(), '');
}

describe('a target that wants in-band authentication', () => {
  const stage = (secrets: Record<string, string>) =>
    harness.volume('keyed', xfs).stage({ volume_context, secrets }, { deadlineMs: kubeletMs });

  test('lets a host in that has the right key, and no other; it is let in again after a restart', async () => {
    target('allow', hostNqn, hostKey, '-');
    await refused(stage({}), 'UNAVAILABLE', /volume keyed: .*refuses the key of this host: set dhchapSecret/);
    await nothingLeft();
    await refused(stage({ dhchapSecret: anotherKey }), 'UNAVAILABLE', /refuses the key of this host: set dhchapSecret/);
    await refused(stage({ dhchapSecret: 'DHHC-1:00' }), 'FAILED_PRECONDITION', /is no key of the form/);
    await nothingLeft();
    const volume = harness.volume('keyed', xfs);
    await volume.up(volume_context, { dhchapSecret: hostKey });
    const path = join(volume.target, 'file');
    writeFileSync(path, 'before', { flush: true });
    target('stop');
    await eventually(async () => assert.equal((await volume.stats()).volume_condition?.abnormal, true), 60_000);
    target('start');
    await eventually(async () => assert.equal((await volume.stats()).volume_condition?.abnormal, false), 60_000);
    writeFileSync(path, 'after', { flush: true });
    noKeyIsShown();
    await volume.down();
    await nothingLeft();
  });

  test('proves itself, if the Secret has its key', async () => {
    target('allow', hostNqn, hostKey, targetKey);
    const wrong = { dhchapSecret: hostKey, dhchapCtrlSecret: anotherKey };
    await refused(stage(wrong), 'UNAVAILABLE', /refuses|does not prove/);
    await nothingLeft();
    const volume = harness.volume('keyed', xfs);
    await volume.up(volume_context, { dhchapSecret: hostKey, dhchapCtrlSecret: targetKey });
    assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'after');
    noKeyIsShown();
    await volume.down();
    await nothingLeft();
  });
});
