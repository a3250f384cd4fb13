import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { loopsOver } from '../support/left-behind.ts';
import { blockCapability } from '../support/node-volume.ts';
import { openExecHarness, ProgramDirectory } from '../support/programs.ts';

/* By itself: once the device is detached, the kernel offers its number to everybody. */

test('PB14: the number of a device that took no writes is as good as any other afterwards', async () => {
  using directory = new ProgramDirectory();
  const path = directory.example('json');
  await using harness = await openExecHarness([{ name: 'disks', path, protocol: 'json', presents: 'device' }]);
  const volume_context = { kind: 'exec', program: 'disks', 'options.image': harness.image('a.img') };
  const volume = harness.volume('pv-1', blockCapability());
  await volume.stage({ volume_context });
  await volume.publish({ volume_context, readonly: true });
  const [device = ''] = loopsOver(harness.scratch.path);
  const refusesWrites = () => execFileSync('blockdev', ['--getro', device], { encoding: 'utf8' }).trim();
  assert.equal(refusesWrites(), '1');
  await volume.down();
  assert.deepEqual(loopsOver(harness.scratch.path), []);
  const left = refusesWrites();
  execFileSync('blockdev', ['--setrw', device]);
  assert.equal(left, '0');
});
