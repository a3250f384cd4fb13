import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const count = 120;
/** More than are looked at at a time, and far fewer than there are. */
const fewFiles = 60;

/** Each open image takes a descriptor, and its map 112 KiB of memory. */
test('a look at many volumes of a template opens a few images at a time', async () => {
  using scratch = new Scratch('many-volumes');
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n << 30n } as const;
  const open = () => openTestPool(scratch, { location, overcommit: 100 });
  const made = await open();
  const names = Array.from({ length: count }, (_, index) => `volume-${index}`);
  await Promise.all(names.map((name) => made.create(volumeSpec(name))));
  await made.close();

  // From now on only their maps show what they share with the template.
  const pool = await open();
  const before = openFiles();
  let most = before;
  const looking = pool.usage();
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  void looking.then(end, end);
  while (!isOver) {
    await new Promise(setImmediate);
    most = Math.max(most, openFiles());
  }
  assert.equal((await looking).volumes.length, count);
  assert.ok(most > before, 'images were opened');
  assert.ok(most - before <= fewFiles, `${most - before} files were open`);
  await pool.close();
});

function openFiles(): number {
  return readdirSync('/proc/self/fd').length;
}
