/**
 * Runs in the virtual machine: a driver is killed before each step of snapshots that follow their volume from one thin pool to
 * another, after each of them, or after each step of their end.
 * node moves-killed-in-guest.ts before|after|cancel DISK DISK
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { extname } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readAt } from '../../../src/kernel/file/file.ts';
import { type SnapshotId, snapshotIdFor } from '../../../src/volume/id.ts';
import type { CrashPoint, StepName } from '../../../src/volume/step.ts';
import { deviceOf, write } from '../../move/devices.ts';
import { movesOf } from '../../move/two-pools.ts';
import { eventually } from '../../support/eventually.ts';
import { guestArguments, lvm } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { MovingNode, moved, poolNames } from './moving-node.ts';

/** The steps of two snapshots that follow, each with the pass at which the driver dies. */
const points: readonly (readonly [StepName, number])[] = [
  ['move/note', 1],
  ['move/fence', 1],
  ['move/draft', 1],
  ['move/progress', 1],
  ['move/progress', 2],
  ['move/generation', 1],
  ['move/give', 1],
  ['move/complete', 1],
  ['move/commit', 1],
  ['move/settle', 1],
  ['move/fence', 2],
  ['move/draft', 2],
  ['move/give', 2],
  ['move/commit', 2],
  ['move/settle', 2],
  ['move/forget', 1],
];
const cancelPoints: readonly StepName[] = ['move/discard', 'move/open', 'move/forget'];

const { disks } = guestArguments();
const [part] = process.argv.slice(2);
const scratch = new Scratch('moves');
const data = scratch.join('data');
const groups = disks.map((_disk, at) => `moves-${process.pid}-${at}`);
const mover = fileURLToPath(new URL(`killed-mover${extname(import.meta.url)}`, import.meta.url));
/** The digests of the snapshots. */
const digests = new Map<SnapshotId, string>();
const patienceMs = 300_000;

function killedIn(order: 'cancel' | 'move', to: string, when: CrashPoint['when'], step: StepName, pass: number): void {
  const words = [data, ...groups, order, to, when, step, `${pass}`];
  const { signal, stderr } = spawnSync(process.execPath, [mover, ...words], { encoding: 'utf8' });
  assert.equal(signal, 'SIGKILL', `${when} ${step} ${pass} was not reached: ${stderr}`);
}

/** The next start has ended what the killed driver has left. */
async function resumed(): Promise<MovingNode> {
  const node = await MovingNode.open(data, groups);
  try {
    await node.mover.resume();
    await node.ended();
    return node;
  } catch (error) {
    await node[Symbol.asyncDispose]();
    throw error;
  }
}

/** Each snapshot is in this pool alone, and whole; nothing is on its way, and no logical volume is left of it. */
async function requireIn(node: MovingNode, to: string): Promise<void> {
  for (const name of poolNames) {
    const { snapshots } = movesOf(node.pools.get(name));
    const ids = snapshots.all(moved.id).map(({ id }) => id);
    assert.deepEqual(ids.sort(), name === to ? [...digests.keys()].sort() : [], name);
    await eventually(async () => assert.deepEqual(await snapshots.arriving(), [], name), patienceMs);
  }
  for (const [id, digest] of digests) {
    const { pool, record } = (await node.pools.findSnapshot(id)) ?? assert.fail();
    await using file = await movesOf(pool).snapshots.read(id);
    const bytes = await readAt(pool.queue, file, { offsetBytes: 0, lengthBytes: Number(record.sizeBytes) });
    assert.equal(createHash('sha256').update(bytes).digest('hex'), digest);
  }
  const home = (await node.pools.require(moved.id)).pool.name;
  await eventually(() => {
    for (const [at, group] of groups.entries()) {
      const lvs = lvm('lvs', '--noheadings', '-o', 'lv_name,lv_tags', group).trim().split('\n');
      const own = lvs.filter((line) => /holdfast\.(volume|snapshot|draft|removed|trash)/.test(line));
      // The trash has the copies that the volume has left.
      const live = own.filter((line) => !line.includes('holdfast.trash'));
      const expected = (poolNames[at] === home ? 1 : 0) + (poolNames[at] === to ? digests.size : 0);
      assert.equal(live.length, expected, lvs.join('\n'));
    }
  }, patienceMs);
}

/** The volume goes to the other pool, and its snapshots stay. @returns that pool */
async function moveAlone(node: MovingNode): Promise<string> {
  const to = (await node.pools.require(moved.id)).pool.name === 'one' ? 'two' : 'one';
  await node.mover.start(moved.id, to, undefined);
  await node.ended();
  assert.equal((await node.pools.require(moved.id)).pool.name, to);
  for (const pool of node.pools.all()) await pool.purge(moved.id).catch(() => undefined);
  return to;
}

describe('a driver that is killed while snapshots follow their volume from one thin pool to another', () => {
  let to = '';
  before(async () => {
    for (const [at, disk] of disks.entries()) lvm('vgcreate', '--yes', groups[at] ?? assert.fail(), disk);
    await using node = await resumed();
    const one = node.pools.get('one');
    await one.create(moved);
    for (const [at, name] of ['older', 'newer'].entries()) {
      {
        await using shown = await deviceOf(node, moved.id);
        write(shown.devicePath, randomBytes(3 << 20), BigInt(at) << 20n);
      }
      const id = snapshotIdFor('node', name);
      const [record] = await one.takeSnapshots([{ id, name, sourceId: moved.id, parameters: {} }]);
      await using file = await movesOf(one).snapshots.read(id);
      const lengthBytes = Number(record?.sizeBytes ?? assert.fail());
      const bytes = await readAt(one.queue, file, { offsetBytes: 0, lengthBytes });
      digests.set(id, createHash('sha256').update(bytes).digest('hex'));
    }
    to = await moveAlone(node);
  });

  for (const when of (['before', 'after'] satisfies CrashPoint['when'][]).filter((each) => each === part)) {
    for (const [step, pass] of points) {
      test(`${when} ${step}, pass ${pass}: each snapshot is whole, and there once, and the next start ends it`, async () => {
        killedIn('move', to, when, step, pass);
        await using node = await resumed();
        // Before its first note nothing was begun.
        if (step === 'move/note' && when === 'before') {
          await node.mover.start(moved.id, to, undefined, true);
          await node.ended();
        }
        await requireIn(node, to);
        to = await moveAlone(node);
      });
    }
  }

  for (const step of part === 'cancel' ? cancelPoints : []) {
    test(`after ${step} of its end: each snapshot is whole, and where it was`, async () => {
      killedIn('cancel', to, 'after', step, 1);
      await using node = await MovingNode.open(data, groups);
      await node.mover.resume();
      if (node.sight()?.snapshots?.job.state === 'running') await node.mover.cancel(moved.id);
      await requireIn(node, to === 'one' ? 'two' : 'one');
    });
  }
});
