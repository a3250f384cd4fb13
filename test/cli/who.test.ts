import assert from 'node:assert/strict';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Child } from '../support/child.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
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
