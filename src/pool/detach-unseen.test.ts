import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { detachUnseen } from './detach-unseen.ts';
import type { Attached } from './pool.ts';

test('a mapper that goes by itself while it is looked at is no error, and what it was over is detached', async () => {
  // Numbers and paths that no device has.
  const device = (minor: number): Attached => ({
    kind: 'device',
    device: { major: 4000, minor },
    devicePath: `/dev/holdfast-no-such-device-${minor}`,
    readonly: false,
  });
  const [mapper, below] = [device(1), device(2)];
  const answers = [[mapper], [below], []];
  const detached: Attached[] = [];
  const attacher = {
    attached: async () => answers.shift() ?? [],
    detach: async (each: Attached) => void detached.push(each),
  };
  await detachUnseen(new DiskQueue('test', 1), attacher);
  assert.deepEqual(detached, [mapper, below]);
});
