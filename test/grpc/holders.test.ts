import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { shortPath } from '../../src/volume/short-path.ts';
import { Child } from '../support/child.ts';
import { CallError } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { filesystems } from '../support/node-volume.ts';
import { Scratch } from '../support/scratch.ts';

/** A process that has a file open until it is disposed of. */
function reader(path: string): Promise<Child> {
  return Child.start(['tail', '--follow', path], { tells: true });
}

describe('who keeps a volume is named', () => {
  let harness: NodeHarness;
  before(async () => {
    harness = await NodeHarness.open('holders');
  });
  after(() => harness[Symbol.asyncDispose]());

  for (const { fsType, sizeBytes } of filesystems) {
    test(`${fsType}: NodeUnpublishVolume and NodeUnstageVolume name a process and what it has open`, async () => {
      const volume = await harness.volume(`file-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      for (const [path, undo] of [
        [volume.target, () => volume.unpublish()],
        [volume.staging, () => volume.unstage()],
      ] as const) {
        writeFileSync(join(path, 'file'), 'x');
        await using user = await reader(join(path, 'file'));
        const message = await rejects(undo(), 'FAILED_PRECONDITION');
        const who = `in use by process ${user.pid} (tail) at ${shortPath(`${path}/file`)}`;
        assert.equal(
          message,
          `volume ${volume.id} cannot be unmounted: it is ${who}; end that first (see holdfast who).`,
        );
        await user[Symbol.asyncDispose]();
        await undo();
      }
    });
  }

  test('a file that the kernel swaps to, by NodeUnpublishVolume', async () => {
    const volume = await harness.volume('swap', { type: 'mount', fsType: 'ext4' });
    await volume.stage();
    await volume.publish();
    const file = join(volume.target, 'swap');
    writeFileSync(file, Buffer.alloc(1 << 20), { mode: 0o600, flush: true });
    run('mkswap', file);
    run('swapon', '--priority', '0', file);
    try {
      const message = await rejects(volume.unpublish(), 'FAILED_PRECONDITION');
      assert.ok(message.includes(`in use by device ${shortPath(file)} (swap space, see swapoff)`), message);
    } finally {
      run('swapoff', file);
    }
    await volume.down();
  });

  test('of several only those who keep this very mount', async () => {
    const volume = await harness.volume('several', { type: 'mount', fsType: 'ext4' });
    await volume.stage();
    await volume.publish();
    mkdirSync(join(volume.target, 'upon'));
    run('mount', '-t', 'tmpfs', 'tmpfs', join(volume.target, 'upon'));
    await using _elsewhere = await harness.workIn(volume.staging);
    await using _here = await harness.workIn(volume.target);
    const message = await rejects(
      volume.unpublish(),
      'FAILED_PRECONDITION',
      /(the mount at .*\/upon|process \d+ \(sleep\) at .*) and 1 other;/,
    );
    assert.ok(!message.includes(volume.staging));
    run('umount', join(volume.target, 'upon'));
    await _here[Symbol.asyncDispose]();
    await volume.unpublish();
    await _elsewhere[Symbol.asyncDispose]();
    await volume.unstage();
  });

  test('block: a process that has the device open at its target', async () => {
    const volume = await harness.volume('block', { type: 'block' });
    await volume.stage();
    await volume.publish();
    const program = 'import sys; kept = open(sys.argv[1], "rb"); print(flush=True); sys.stdin.read()';
    await using child = await Child.start(['python3', '-c', program, volume.target], { stdin: 'pipe', tells: true });
    await rejects(
      volume.unpublish(),
      'FAILED_PRECONDITION',
      new RegExp(`process ${child.pid} \\(python3\\) at ${shortPath(volume.target)}`),
    );
    child.endInput();
    await child.ended();
    await volume.down();
  });

  test('X03: a path of any length leaves the message short', async () => {
    const volume = await harness.volume('long', { type: 'mount', fsType: 'ext4' });
    await volume.stage();
    await volume.publish();
    const deep = join(volume.target, ...Array.from({ length: 8 }, () => 'd'.repeat(250)));
    execFileSync('mkdir', ['--parents', deep]);
    await using _users = await harness.workIn(deep);
    const message = await rejects(volume.unpublish(), 'FAILED_PRECONDITION', /process/);
    assert.ok(Buffer.byteLength(message) <= 200, message);
    await _users[Symbol.asyncDispose]();
    await volume.down();
  });
});

test('DV06: DeleteVolume of a volume in use says where it is mounted, or who else has it', async () => {
  using scratch = new Scratch('holders');
  await using driver = await DriverProcess.start(scratch, {
    config: `pools:\n  p: { directory: ${scratch.join('pool')} }\n`,
  });
  using client = driver.connect();
  const volume = new TestVolume(scratch, 'v');
  const id = await volume.bringUp(client);
  const refusal = async () => {
    try {
      await client.controller.DeleteVolume({ volume_id: id });
    } catch (error) {
      assert.ok(error instanceof CallError && error.code === 'FAILED_PRECONDITION', `${error}`);
      return error.message;
    }
    throw new assert.AssertionError({ message: 'DeleteVolume was not refused' });
  };
  const mounted = await refusal();
  assert.ok(mounted.includes(`the mount at ${volume.stagingPath} and 1 other`), mounted);
  assert.doesNotMatch(mounted, /process/);

  // Taken away from under its user: what is left of it can be seen nowhere.
  writeFileSync(volume.file('file'), 'x');
  await using user = await reader(volume.file('file'));
  execFileSync('umount', ['--lazy', volume.targetPath]);
  execFileSync('umount', ['--lazy', volume.stagingPath]);
  assert.match(await refusal(), new RegExp(`by process ${user.pid} \\(tail\\) at `));
  await user[Symbol.asyncDispose]();
  await volume.tearDown(client, id);
  assert.ok(!existsSync(volume.targetPath));
});
