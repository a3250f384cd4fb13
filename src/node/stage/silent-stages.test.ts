import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { Notes } from '../notes.ts';
import { SilentStages } from './silent-stages.ts';

const [volume, other] = ['a', 'b'] as VolumeHandle[] as [VolumeHandle, VolumeHandle];

/** @param looked hears of each volume that is looked for; none is staged */
function stages(looked: (volumeId: VolumeHandle) => void): SilentStages {
  return new SilentStages({
    context: {
      queue: new DiskQueue('test', 1),
      // The only one of its methods that is called.
      notes: async () => ({ read: (id: VolumeHandle) => void looked(id) }) as Notes,
    },
    log: { warn: () => assert.fail('nothing is unmounted') },
    stopping: new AbortController().signal,
    during: (work) => work(),
    unstage: async () => assert.fail('nothing is staged'),
    askEveryMs: 1,
  });
}

test('a volume is left with the last pod of the node that wants it, also one whose publish failed', async () => {
  let heard = Promise.withResolvers<VolumeHandle>();
  const silent = stages((id) => heard.resolve(id));
  silent.used(volume, '/pods/one');
  silent.used(volume, '/pods/two');
  silent.left(volume, '/pods/one');
  silent.left(other, '/pods/three');
  assert.equal(await heard.promise, other);
  heard = Promise.withResolvers();
  silent.left(volume, '/pods/two');
  assert.equal(await heard.promise, volume);
});
