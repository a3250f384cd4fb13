import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { isOpenElsewhere } from '../../src/kernel/process/lock.ts';
import { openImage, type RecordedImage } from '../../src/pool/kinds/image/image-file.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Scratch } from '../support/scratch.ts';

test('an image opens while it is looked at if it is in use, which takes a lease for a moment', async () => {
  using scratch = new Scratch('lease');
  const queue = new DiskQueue('lease', 2);
  const sizeBytes = 4096n;
  const image: RecordedImage = {
    kind: 'volume',
    id: volumeIdFor('node', 'test', 'lease'),
    path: scratch.join('data'),
    sizeBytes,
  };
  writeFileSync(image.path, Buffer.alloc(Number(sizeBytes)));
  let isDone = false;
  let looks = 0;
  const looking = async () => {
    while (!isDone) {
      await isOpenElsewhere(queue, image.path);
      looks++;
    }
  };
  const opening = async () => {
    for (let times = 0; times < 4000; times++) {
      await using _open = await openImage(queue, image, 'write');
    }
  };
  const looked = looking();
  await opening().finally(() => {
    isDone = true;
  });
  await looked;
  assert.ok(looks > 0);
});
