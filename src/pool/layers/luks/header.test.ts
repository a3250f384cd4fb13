import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { Scratch } from '../../../../test/support/scratch.ts';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { hasHeader } from './header.ts';

test('a header is known by either of its copies, and by nothing else', async () => {
  using scratch = new Scratch('header');
  const queue = new DiskQueue('test', 1);
  const path = scratch.join('data');
  const [first, second] = [Buffer.from('LUKS\xba\xbe', 'latin1'), Buffer.from('SKUL\xba\xbe', 'latin1')];
  const known = async (lengthBytes: number, magic?: Buffer, offsetBytes = 0) => {
    const data = Buffer.alloc(lengthBytes);
    magic?.copy(data, offsetBytes);
    writeFileSync(path, data);
    await using file = await openReadOnly(queue, path);
    return await hasHeader(queue, file);
  };
  assert.equal(await known(1 << 20, first), true);
  assert.equal(await known(1 << 20, second, 0x4000), true);
  // All that there is.
  assert.equal(await known(first.length, first), true);
  assert.equal(await known(0x4000 + second.length, second, 0x4000), true);
  assert.equal(await known(1 << 20), false);
  assert.equal(await known(0), false);
  assert.equal(await known(0x4000 + second.length - 1, second, 0x4000), false);
  // In the place of the other one.
  assert.equal(await known(1 << 20, second), false);
  assert.equal(await known(1 << 20, first, 0x4000), false);
});
