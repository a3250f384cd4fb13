import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import { noteFormat } from '../kinds/iscsi/connections.ts';
import type { VolumeOnNode } from '../node-side.ts';
import { ConnectionNotes } from './connection-notes.ts';
import { DiskUses } from './disk-uses.ts';
import { leave } from './leave.ts';
import type { NetworkDevice, Target } from './target.ts';
import { TargetState } from './target-state.ts';

const queue = new DiskQueue('test', 1);
const volume = { handle: 'a' as VolumeOnNode['handle'], context: {} };
const map: NetworkDevice = {
  ...{ name: 'dm-0', devicePath: '/dev/dm-0', device: { major: 253, minor: 0 } },
  sizeBytes: 1n,
  paths: [],
};
let directory: string;

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'leave-'));
});
after(() => rmSync(directory, { recursive: true }));

/** @returns the calls that change something, and the users that are left. @param held by something on the node */
async function leaveIt(users: readonly string[], held: NetworkDevice | undefined) {
  const calls: string[] = [];
  const done = async () => undefined;
  const target: Target<never> = {
    ...{ name: 'iqn.a', nameKey: 'iqn', noun: 'logical unit', lossKey: 'replacementTimeout' },
    ...{ connect: done, rescan: done, connections: () => [], devicesOf: () => [], devicesOfOurs: () => [] },
    disconnect: async () => void calls.push('disconnect'),
    drop: async () => void calls.push('drop'),
    heldBeyond: async () => held,
    resume: async () => void calls.push('resume'),
    notThere: () => assert.fail(),
    isTwice: () => assert.fail(),
  };
  const notes = await ConnectionNotes.open<never>(queue, directory, 'iqn.a', {
    ...noteFormat,
    schema: noteFormat.schema.transform((note) => ({ ...note, connections: [] })),
  });
  await notes.write(queue, { users, connections: [] });
  const error = await leave(queue, target, new TargetState(notes, new DiskUses()), volume).catch((thrown) => thrown);
  return { calls, error, users: notes.note.users };
}

describe('a volume that is left', () => {
  for (const users of [['a'], ['a', 'b']]) {
    test(`is not left while something holds its device, with ${users.length} users of the target`, async () => {
      const { calls, error, users: left } = await leaveIt(users, map);
      assert.ok(error instanceof Unavailable);
      assert.match(error.message, /volume a: dm-0 is still held/);
      // Its reads and writes wait for the target again, as they did.
      assert.deepEqual([calls, left], [['resume'], users]);
    });
  }

  test('takes its devices with it while others use the target, and with the last one the connections', async () => {
    assert.deepEqual(await leaveIt(['a', 'b'], undefined), { calls: ['drop'], error: undefined, users: ['b'] });
    assert.deepEqual(await leaveIt(['a'], undefined), { calls: ['disconnect'], error: undefined, users: [] });
  });

  test('was left before: what holds a device now is of another', async () => {
    assert.deepEqual(await leaveIt(['b'], map), { calls: [], error: undefined, users: ['b'] });
  });
});
