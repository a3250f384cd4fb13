import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { turnOf } from '../../src/move/job.ts';
import { pause } from '../../src/volume/flow/pause.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf } from './devices.ts';
import { Broker, blockSpec, filled, MovingNode, moveAlong, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const { id } = blockSpec;
const weekMs = 7 * 86_400_000;

test('the end of a move is forgotten a week later at both nodes, whose drivers run on', async (t) => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b', { forgetEveryMs: 20 });
  const notes = () => [
    ...readdirSync(scratch.join('data-a', 'leaving')),
    ...readdirSync(scratch.join('data-b', 'moves')),
  ];
  await filled(a);
  await moveAlong(id, a, b);
  assert.equal(notes().length, 2);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + weekMs - 60_000 });
  await pause(100, undefined);
  assert.deepEqual([a.leavings.jobs().length, b.sight(id).job.state], [1, 'done']);
  t.mock.timers.setTime(Date.now() + 120_000);
  await eventually(() => assert.deepEqual([b.mover.sights(), a.leavings.jobs(), notes()], [[], [], []]));
  // Nothing of that is needed to move it on.
  t.mock.timers.reset();
  await moveAlong(id, b, a);
  assert.equal((await a.pools.require(id)).pool.name, 'data');
});

test('a disk that hangs, to which a volume has not moved, keeps no call for that volume back', async (t) => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a', { forgetEveryMs: 20, poolNames: ['data', 'second'] });
  await filled(a);
  {
    await using _used = await deviceOf(a, id);
    await a.mover.start(id, 'second', undefined);
    await eventually(() => assert.equal(a.sight(id).progress?.phase, 'waiting'));
    await a.mover.cancel(id);
  }
  const hung = Promise.withResolvers<readonly VolumeId[]>();
  const looks = t.mock.method(movesOf(a.pools.get('second')), 'arriving', () => hung.promise);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + weekMs + 60_000 });
  await eventually(() => assert.ok(looks.mock.callCount() > 0));
  assert.equal(await a.objects.run(id, 'NodeStageVolume', '', async () => 'staged'), 'staged');
  hung.resolve([]);
  await eventually(() => assert.deepEqual(a.mover.sights(), []));
});

test('a move that is ordered again just then is not forgotten', async (t) => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b', { forgetEveryMs: 20 });
  await filled(a);
  await moveAlong(id, a, b, a);
  const turns = t.mock.method(b.objects, 'run');
  const forgets = t.mock.method(b.objects, 'claim');
  const note = scratch.join('data-b', 'moves', `${id}.json`);
  await using _used = await deviceOf(a, id);
  const held = Promise.withResolvers<void>();
  const holding = b.objects.claim([{ object: turnOf(id) }], 'a test', () => held.promise);
  const ordered = order(a, b, id);
  await eventually(() => assert.equal(turns.mock.callCount(), 1));
  forgets.mock.resetCalls();
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + weekMs + 60_000 });
  await eventually(() => assert.ok(forgets.mock.callCount() > 0));
  held.resolve();
  await Promise.all([holding, ordered]);
  // Calls for the volume that came before have ended then.
  await b.objects.claim([{ object: turnOf(id) }, { object: id }], 'a test', async () => undefined);
  assert.equal(b.sight(id).job.state, 'running');
  assert.equal(JSON.parse(readFileSync(note, 'utf8')).state, 'running');
});
