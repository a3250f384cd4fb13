import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Child } from '../support/child.ts';
import { holdfast } from '../support/command.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { detachLoopDevice } from '../support/left-behind.ts';
import { TestVolume } from '../support/life.ts';
import { mountCapability } from '../support/node-volume.ts';
import { Scratch } from '../support/scratch.ts';

describe('holdfast who', () => {
  test('names the processes and the mounts that hold a volume', async () => {
    using scratch = new Scratch('cli');
    const options = { config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n` };
    await using driver = await DriverProcess.start(scratch, options);
    const environment = environmentFor(scratch, options);
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    const id = await volume.create(client);
    assert.deepEqual(await holdfast(['who', id], environment), {
      code: 0,
      stdout: `Nothing holds ${id}.\n`,
      stderr: '',
    });

    await volume.stage(client, id);
    await volume.publish(client, id);
    writeFileSync(volume.file('open'), '');
    const stdin = openSync(volume.file('open'), 'r');
    await using user = await Child.start(['sleep', '600'], { stdin });
    closeSync(stdin);
    const { code, stdout } = await holdfast(['who', id], environment);
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^${id} is attached as /dev/loop\\d+$`, 'm'));
    assert.match(stdout, /^KIND +PID +COMMAND +PATH$/m);
    assert.match(stdout, new RegExp(`^process +${user.pid} +sleep +.*/open$`, 'm'));
    for (const path of [volume.stagingPath, volume.targetPath]) {
      assert.match(stdout, new RegExp(`^mount +- +- +${path}$`, 'm'));
    }
    const { holders, isComplete } = JSON.parse((await holdfast(['who', id, '--json'], environment)).stdout);
    assert.equal(isComplete, true);
    assert.ok(holders.some(({ kind, pid }: Record<string, unknown>) => kind === 'process' && pid === user.pid));
  });

  test('names the holders of a disk that a PersistentVolume names, by its handle', async () => {
    using scratch = new Scratch('cli');
    const [handle, links] = ['vol-0123456789abcdef0', scratch.join('links')];
    mkdirSync(links);
    const image = sparseFile(scratch.join('disk.img'), 64);
    execFileSync('mkfs.ext4', ['-q', image]);
    const device = attachDisk(image);
    symlinkSync(device, join(links, 'vol0123456789abcdef0'));
    const environment = { HOLDFAST_SIDE: 'node', HOLDFAST_TEST_DISK_LINKS: links };
    await using driver = await DriverProcess.start(scratch, { environment });
    using client = driver.connect();
    const [staging, target] = ['staging', 'pod'].map((name) => join(driver.kubeletDirectory, name));
    for (const path of [staging, target]) mkdirSync(`${path}`, { recursive: true });
    const staged = {
      volume_id: handle,
      volume_context: { kind: 'aws-ebs', volumeId: handle },
      volume_capability: mountCapability(),
      staging_target_path: `${staging}`,
    };
    const target_path = join(`${target}`, 'mount');
    await client.node.NodeStageVolume(staged);
    await client.node.NodePublishVolume({ ...staged, target_path });
    await using user = await Child.start(['sleep', '600'], { cwd: target_path });
    const { code, stdout } = await holdfast(['who', handle], environmentFor(scratch, { environment }));
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^${handle} is attached as ${device}$`, 'm'));
    assert.match(stdout, new RegExp(`^process +${user.pid} +sleep +${target_path}$`, 'm'));
    assert.match(stdout, new RegExp(`^mount +- +- +${target_path}$`, 'm'));
    await user[Symbol.asyncDispose]();
    await client.node.NodeUnpublishVolume({ volume_id: handle, target_path });
    await client.node.NodeUnstageVolume({ volume_id: handle, staging_target_path: `${staging}` });
    detachLoopDevice(device);
  });

  test('a volume that is not there', async () => {
    using scratch = new Scratch('cli');
    const options = { config: `pools:\n  default:\n    directory: ${scratch.join('pool')}\n` };
    await using _driver = await DriverProcess.start(scratch, options);
    const unknown = `vol-${'a'.repeat(26)}`;
    const { code, stdout, stderr } = await holdfast(['who', unknown], environmentFor(scratch, options));
    assert.deepEqual([code, stdout], [1, '']);
    assert.equal(stderr, `holdfast: There is no volume ${unknown} on this node.\n`);
  });
});
