import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { Child } from '../support/child.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/* One pool may take for ever to open, as its disk hangs, or as another driver has it. */

const linesFor = (scratch: Scratch, names: readonly string[]) => [
  'defaultPool: one',
  'lockTimeoutSeconds: 3600',
  'pools:',
  ...names.map((name) => `  ${name}: { file: ${scratch.join(`${name}.img`)}, size: 1Gi }`),
  '',
];

test('a move goes on after a restart, and can be cancelled, though another pool does not open', async () => {
  using scratch = new Scratch('hung-pool');
  const before = { config: linesFor(scratch, ['one', 'two']).join('\n') };
  {
    await using driver = await DriverProcess.start(scratch, before);
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'data');
    const id = await volume.create(client);
    await volume.stage(client, id);
    await volume.publish(client, id);
    writeFileSync(`${volume.targetPath}/kept`, Buffer.alloc(1 << 20, 1), { flush: true });
    await volume.unpublish(client, id);
    await volume.unstage(client, id);
    const flags = ['--to-pool', 'two', '--limit', '4Ki'];
    const ordered = await holdfast(['move', 'data', ...flags, '--json'], environmentFor(scratch, before));
    assert.equal(ordered.code, 0, ordered.stderr);
  }
  execFileSync('truncate', ['--size=1G', scratch.join('three.img')]);
  await using _holder = await Child.start(['flock', '--no-fork', scratch.join('three.img'), 'sleep', '600'], {
    becomes: 'sleep',
  });
  const options = { config: linesFor(scratch, ['one', 'two', 'three']).join('\n') };
  await using _driver = await DriverProcess.start(scratch, options);
  const environment = environmentFor(scratch, options);
  await eventually(async () => {
    const { stdout, stderr } = await holdfast(['move', 'status', '--json'], environment);
    assert.equal(JSON.parse(stdout).moves[0]?.state, 'running', stderr);
    const cancelled = await holdfast(['move', 'cancel', 'data'], environment);
    assert.equal(cancelled.code, 0, cancelled.stderr);
  });
  const pools = await holdfast(['pools', '--json'], environment);
  assert.equal(JSON.parse(pools.stdout).pools.find(({ name }: { name: string }) => name === 'three')?.state, 'closed');
});
