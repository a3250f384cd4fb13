import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { NodeHarness, run } from '../support/node-harness.ts';
import { blockCapability } from '../support/node-volume.ts';

/*
 * A read-only block volume leaves its mark on the number of its loop device (BLKROSET). Meanwhile the kernel offers that
 * number to everybody, so no other test may run beside this one.
 */

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-block-number');
});
after(() => harness[Symbol.asyncDispose]());

const block = { type: 'block' } as const;
const many = { volume_capability: blockCapability('SINGLE_NODE_MULTI_WRITER') };

test('PB14: the number of a device that took no writes is as good as any other afterwards', async () => {
  const volume = await harness.volume('reused', block);
  await volume.stage(many);
  await volume.publish({ ...many, readonly: true });
  const [device = ''] = harness.loopsOf(volume);
  await volume.down();
  await harness.hasLoops(volume, 0);
  assert.equal(run('blockdev', '--getro', device), '0');
  // Somebody else detached it: what the kernel keeps of it must not be the next volume's.
  await volume.stage(many);
  await volume.publish({ ...many, readonly: true });
  const detached = harness.loopsOf(volume);
  for (const each of detached) run('losetup', '--detach', each);
  try {
    await volume.down();
    const others = await Promise.all(['a', 'b', 'c'].map((name) => harness.volume(`reused-${name}`, block)));
    for (const other of others) {
      await other.stage();
      await other.publish();
      writeFileSync(other.target, 'writable', { flag: 'r+', flush: true });
    }
    for (const other of others) await other.down();
  } finally {
    // None of the three may have got that number.
    for (const each of detached) run('blockdev', '--setrw', each);
  }
});
