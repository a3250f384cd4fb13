import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, mock, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { BytesPerSecond } from '../../src/move/pace.ts';
import { DeletedSnapshots } from '../../src/move/snapshots/deleted-snapshots.ts';
import { PoolHeld } from '../../src/move/snapshots/held.ts';
import { LeftCopies } from '../../src/move/snapshots/left-copies.ts';
import { moveSnapshot } from '../../src/move/snapshots/snapshot-move.ts';
import { moveMarkName } from '../../src/pool/records/move-marks.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { groupIdFor, memberIdFor, type SnapshotId, volumeIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { FailingSync } from '../support/failing-sync.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { id, idOf, Node, refuseCommits, sized, spec, withSnapshots } from './following-node.ts';
import { arrivalOf, movesOf } from './two-pools.ts';

const threePools = ['one', 'two', 'three'].map((name) => sized(name));

const isComing = () => false;

describe('snapshots whose move has come to no clear end', () => {
  test('one that was taken again under its name does not move as the one before', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const [from, to] = [node.pools.get('one'), node.pools.get('two')];
    const record = movesOf(from).snapshots.find(idOf('young')) ?? assert.fail();
    await node.remove(idOf('young'));
    const digest = await node.snapshot('young', randomBytes(4096), 0n);
    const { signal } = new AbortController();
    const nothing = () => undefined;
    const held = new PoolHeld(from, record);
    const parts = {
      ...{ held, to, newBytes: 0n, objects: node.objects, pace: new BytesPerSecond(undefined), signal },
      whole: async () => undefined,
    };
    await assert.rejects(moveSnapshot({ ...parts, begun: nothing, moved: nothing }), /is another one by now/);
    assert.equal(await node.digest('young'), digest);
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
  });

  test('one that may be in a pool which is away is neither taken back nor deleted; then it follows', async () => {
    using scratch = new Scratch('doubt');
    let digests: Awaited<ReturnType<typeof withSnapshots>>;
    {
      await using node = await Node.open(scratch, threePools);
      digests = await withSnapshots(node);
      mock.method(movesOf(node.pools.get('one')).snapshots, 'settle', async () => {
        throw new Unavailable('pool one does not answer.');
      });
      await node.mover.start(id, 'two', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
      await node.mover.start(id, 'three', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    {
      await using node = await Node.open(scratch, threePools, ['two']);
      // There may be more of them than are seen.
      await assert.rejects(node.mover.start(id, 'three', undefined, true), {
        name: 'Unavailable',
        message: /pool two/,
      });
      await assert.rejects(node.remove(idOf('young')), { name: 'Unavailable' });
      await assert.rejects(node.mover.cancel(id), { name: 'Unavailable' });
    }
    await using node = await Node.open(scratch, threePools);
    await node.mover.start(id, 'three', undefined, true);
    await node.ended();
    assert.deepEqual(await node.listed(), ['three/middle', 'three/old', 'three/young']);
    for (const [name, digest] of Object.entries(digests)) assert.equal(await node.digest(name), digest);
  });

  test('one that was about to begin as a clone of another one that is deleted begins as one of the next', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    const target = movesOf(node.pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    const refused: unknown[] = [];
    mock.method(target, 'receive', async (...[record, arrival]: Parameters<typeof receive>) => {
      const isFirst = refused.length === 0 && record.name === 'middle';
      const deleted = async () => {
        if (isFirst) await node.pools.get('two').removeSnapshot(idOf('young'));
      };
      const alone: typeof arrival.alone = (of, work) =>
        arrival.alone(of, async () => {
          await deleted();
          return work();
        });
      return receive(record, { ...arrival, alone }).catch((error) => {
        refused.push(error);
        throw error;
      });
    });
    await node.mover.start(id, 'two', undefined, true);
    assert.deepEqual((await node.ended()).snapshots.left, []);
    assert.match(String(refused), /^Unavailable: snapshot .* is gone; it is tried again/);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
    for (const name of ['middle', 'old'] as const) assert.equal(await node.digest(name), digests[name]);
  });

  test('one whose notes have failed twice in its hand-over is usable where it was, and moves with the next order', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    {
      using _sick = new FailingSync(scratch.join('data', 'moved'), 2);
      await node.mover.start(id, 'two', undefined, true);
      await eventually(() => assert.match(node.sight().snapshots?.trouble ?? '', /EIO/));
      await assert.rejects(node.mover.cancel(id), /EIO/);
    }
    const { left } = (await node.ended()).snapshots;
    assert.deepEqual(
      left.map(({ name }) => name),
      ['young'],
    );
    assert.deepEqual(await node.listed(), ['one/young', 'two/middle', 'two/old']);
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    assert.equal(await node.digest('young'), digests.young);
  });

  test('those that an order does not mean stay, and so do all once the volume has moved on', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch, threePools);
    await withSnapshots(node);
    const commitAgain = refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    await node.mover.start(id, 'three', undefined);
    await eventually(() => assert.equal(node.sight().job.to, 'three'));
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    await node.snapshot('new', randomBytes(4096), 0n);
    commitAgain();
    const { left } = (await node.ended()).snapshots;
    // The one that was handed over has arrived.
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'three/new', 'two/young']);
    const reasons = left.map(({ name, reason }) => [name, /is in pool three/.test(reason)]);
    assert.deepEqual(reasons, [
      ['middle', true],
      ['old', true],
    ]);
  });

  test('one that was handed over and is ordered back is there again, with nothing left elsewhere', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    const commitAgain = refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    commitAgain();
    await node.mover.start(id, 'one', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.job.state, 'done'));
    await eventually(async () => assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']));
    assert.equal(await node.digest('young'), digests.young);
    const drafts = readdirSync(scratch.join('data/pools/two/tmp')).filter((name) => name.includes(idOf('young')));
    assert.deepEqual(drafts, []);
  });
});

/** The driver has stopped while a snapshot was being copied to pool two. @returns its name there */
async function cutShort(scratch: Scratch): Promise<string> {
  await using node = await Node.open(scratch);
  await withSnapshots(node);
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().job.state, 'done'));
  await node.mover.start(id, 'two', 16n << 20n, true);
  await eventually(() => assert.ok((node.sight().snapshots?.progress?.doneBytes ?? 0n) > 0n));
  return `${idOf('young')}.copy`;
}

/** Begins a copy of a snapshot from pool one to pool two, with that note, and no more. */
async function begin({ pools }: Node, name: string, note: string): Promise<void> {
  const [one, two] = [movesOf(pools.get('one')).snapshots, movesOf(pools.get('two')).snapshots];
  const { moveId } = await one.close(idOf(name), 'two');
  await using incoming = await two.receive(one.find(idOf(name)) ?? assert.fail(), arrivalOf(moveId));
  await incoming.note(note);
}

const noted = (scratch: Scratch) =>
  new DeletedSnapshots(scratch.join('data'), new DiskQueue('notes', 1), () => ['one', 'two']);
const draftsIn = (scratch: Scratch) => readdirSync(scratch.join('data/pools/two/tmp'));

describe('parts of snapshots that come no more', () => {
  test('are removed once the pool is open again, also if the snapshot was deleted or its move given up meanwhile', async (t) => {
    for (const isDeleted of [true, false]) {
      await t.test(isDeleted ? 'deleted' : 'given up', async () => {
        using scratch = new Scratch('left');
        const draft = await cutShort(scratch);
        const away = ['two'];
        await using node = await Node.open(scratch, undefined, away);
        if (isDeleted) await node.remove(idOf('young'));
        else await node.mover.cancel(id);
        away.length = 0;
        await eventually(() => assert.equal(node.pools.firstClosed(), undefined));
        await eventually(() => assert.ok(!draftsIn(scratch).includes(draft), `${draftsIn(scratch)}`));
        if (isDeleted) await node.ended();
        const expected = isDeleted ? ['two/middle', 'two/old'] : ['one/middle', 'one/old', 'one/young'];
        assert.deepEqual(await node.listed(), expected);
      });
    }
  });

  test('are removed once the pool is open again, also if all bytes had come when the snapshot was deleted', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const { pools } = node;
    const target = movesOf(pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    let deletion: Promise<void> | undefined;
    mock.method(target, 'receive', async (...[record, arrival]: Parameters<typeof receive>) => {
      const incoming = await receive(record, arrival);
      const confirm = incoming.confirm.bind(incoming);
      incoming.confirm = async () => {
        await confirm();
        if (record.name !== 'young' || deletion !== undefined) return;
        // As in quarantine.
        sick = mock.method(pools, 'all', () => [pools.get('one'), pools.get('plain')]);
        deletion = node.remove(idOf('young'));
        await delay(0);
      };
      return incoming;
    });
    let sick: { readonly mock: { restore(): void } } | undefined;
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.ok(deletion !== undefined));
    await deletion;
    const draft = `${idOf('young')}.copy`;
    assert.ok(draftsIn(scratch).includes(draft));
    assert.deepEqual(readdirSync(scratch.join('data/deleted-snapshots')).length, 1);
    sick?.mock.restore();
    await eventually(() => assert.ok(!draftsIn(scratch).includes(draft), `${draftsIn(scratch)}`));
    await node.ended();
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
    await eventually(() => assert.deepEqual(readdirSync(scratch.join('data/deleted-snapshots')), []));
  });

  test('are removed by the next start, and those of a snapshot that may still come are not', async () => {
    using scratch = new Scratch('left');
    const draft = await cutShort(scratch);
    {
      await using node = await Node.open(scratch, undefined, ['two']);
      await node.remove(idOf('young'));
      assert.equal(node.sight().snapshots?.job.state, 'running');
    }
    await using node = await Node.open(scratch);
    await node.ended();
    await eventually(() => assert.ok(!draftsIn(scratch).includes(draft), `${draftsIn(scratch)}`));
    const { snapshots } = movesOf(node.pools.get('two'));
    assert.deepEqual(await snapshots.arriving(), []);
  });

  test('are those of snapshots of which no copy is fenced: others may still arrive', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const [one, two] = [movesOf(node.pools.get('one')).snapshots, movesOf(node.pools.get('two')).snapshots];
    for (const name of ['young', 'old']) {
      await begin(node, name, JSON.stringify({ fenceId: 'a', isClone: true, offsetBytes: '0', isWhole: false }));
    }
    await one.open(idOf('old'));
    const { objects, pools } = node;
    const options = { pools, objects, log: quiet, retryMs: 10, deleted: noted(scratch) };
    // The node that a snapshot comes from alone knows its fence.
    await new LeftCopies({ ...options, isComing: () => true }).remove();
    assert.deepEqual((await two.arriving()).length, 2);
    await new LeftCopies({ ...options, isComing }).remove();
    assert.deepEqual(await two.arriving(), [idOf('young')]);
  });

  test('are kept while they may be the last copy, as where the snapshot was is no pool of the node any more', async () => {
    using scratch = new Scratch('left');
    let digests: Awaited<ReturnType<typeof withSnapshots>>;
    {
      await using node = await Node.open(scratch);
      digests = await withSnapshots(node);
      refuseCommits(node.pools.get('two'));
      await node.mover.start(id, 'two', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    }
    const draft = `${idOf('young')}.copy`;
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await node.ended();
      const { objects, pools } = node;
      await new LeftCopies({ pools, objects, log: quiet, retryMs: 10, deleted: noted(scratch), isComing }).remove();
      assert.ok(draftsIn(scratch).includes(draft));
    }
    {
      await using node = await Node.open(scratch);
      await node.mover.start(id, 'two', undefined, true);
      assert.deepEqual((await node.ended()).snapshots.left, []);
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
      assert.equal(await node.digest('young'), digests.young);
      refuseCommits(node.pools.get('one'));
      await node.mover.start(id, 'one', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one is full.'));
    }
    // Until the snapshot is deleted.
    await using node = await Node.open(scratch, [sized('one')]);
    const { snapshots } = movesOf(node.pools.get('one'));
    assert.deepEqual(await snapshots.arriving(), [idOf('young')]);
    await node.remove(idOf('young'));
    assert.deepEqual(await snapshots.arriving(), []);
  });

  test('go, and are logged once, though the mark of another snapshot cannot be read', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const [one, two] = [movesOf(node.pools.get('one')).snapshots, movesOf(node.pools.get('two')).snapshots];
    for (const name of ['young', 'middle', 'old']) {
      await begin(node, name, '{}');
      await one.open(idOf(name));
    }
    const looks = mock.method(one, 'stateOf');
    writeFileSync(scratch.join('data/pools/one/snapshots', idOf('middle'), moveMarkName), '{');
    const warnings: string[] = [];
    const log = { ...quiet, warn: (_facts: object, text: string) => warnings.push(text) };
    const { objects, pools } = node;
    const left = new LeftCopies({ pools, objects, log, retryMs: 10, deleted: noted(scratch), isComing });
    void left.remove();
    await eventually(() => assert.ok(looks.mock.callCount() > 8));
    await left.stop();
    assert.deepEqual(await two.arriving(), [idOf('middle')]);
    assert.deepEqual(warnings, ['parts of snapshots that come no more cannot be removed']);
  });

  test('stay with their snapshot, and the others follow, if its mark cannot be read', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    writeFileSync(scratch.join('data/pools/one/snapshots', idOf('middle'), moveMarkName), '{');
    await node.mover.start(id, 'two', undefined, true);
    const { left } = (await node.ended()).snapshots;
    assert.deepEqual(
      left.map(({ name }) => name),
      ['middle'],
    );
    assert.deepEqual(await node.listed(), ['one/middle', 'two/old', 'two/young']);
  });
});

describe('a snapshot that has moved, and whose first pool has not heard of that', () => {
  /** It has arrived in pool two, and pool one has a copy that was handed over. */
  async function arrived(scratch: Scratch): Promise<Awaited<ReturnType<typeof withSnapshots>>> {
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    mock.method(movesOf(node.pools.get('one')).snapshots, 'settle', async () => {
      throw new Unavailable('pool one does not answer.');
    });
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
    return digests;
  }

  test('is not removed there if not all of its data is in the other pool', async () => {
    using scratch = new Scratch('doubt');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const one = movesOf(node.pools.get('one')).snapshots;
    const settle = mock.method(one, 'settle', async () => {
      throw new Unavailable('pool one does not answer.');
    });
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
    truncateSync(scratch.join('data/pools/two/snapshots', idOf('young'), 'data'), 4096);
    settle.mock.restore();
    await assert.rejects(node.mover.cancel(id), { code: 'DATA_LOSS' });
    await eventually(() => assert.match(node.sight().snapshots?.trouble ?? '', new RegExp(idOf('young'))));
    assert.ok(one.find(idOf('young')) !== undefined);
  });

  for (const isRestarted of [false, true]) {
    test(`is deleted while that is not open, and does not come back with it, ${isRestarted ? 'also after a restart' : 'with the same driver'}`, async () => {
      using scratch = new Scratch('deleted');
      const digests = await arrived(scratch);
      const away = ['one'];
      const first = await Node.open(scratch, undefined, away);
      await first.remove(idOf('young'));
      assert.deepEqual(await first.listed(), []);
      if (isRestarted) await first[Symbol.asyncDispose]();
      away.length = 0;
      await using node = isRestarted ? await Node.open(scratch) : first;
      assert.deepEqual((await node.ended()).snapshots.left, []);
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
      assert.equal(await node.digest('old'), digests.old);
      assert.equal(movesOf(node.pools.get('one')).snapshots.find(idOf('young')), undefined);
      await eventually(() => assert.deepEqual(readdirSync(scratch.join('data/deleted-snapshots')), []));
      await node.remove(idOf('young'));
    });
  }

  test('stays if its deletion was cut short, and another one of its name does', async () => {
    using scratch = new Scratch('deleted');
    const digests = await arrived(scratch);
    {
      await using node = await Node.open(scratch, undefined, ['one']);
      mock.method(node.pools.get('two'), 'removeSnapshot', async () => {
        throw new Unavailable('pool two does not answer.');
      });
      await assert.rejects(node.remove(idOf('young')), /pool two does not answer/);
    }
    await using node = await Node.open(scratch);
    await node.ended();
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    assert.equal(await node.digest('young'), digests.young);
    const { snapshots } = movesOf(node.pools.get('two'));
    await snapshots.removeOlder(idOf('young'), new Date().toISOString(), 9);
    assert.equal(await node.digest('young'), digests.young);
  });
});

describe('copies of deleted snapshots', () => {
  test('are known by the note of an earlier driver, too, which names no pools: they may be in each', async () => {
    using scratch = new Scratch('deleted');
    const directory = scratch.join('data/deleted-snapshots');
    mkdirSync(directory, { recursive: true });
    const note = { id: idOf('old'), createdAt: new Date().toISOString(), generation: 1 };
    writeFileSync(join(directory, 'a.json'), JSON.stringify({ format: 1, ...note, moveId: 'b' }));
    const deleted = noted(scratch);
    assert.deepEqual(await deleted.read(), []);
    assert.deepEqual(deleted.all(), [{ ...note, pools: ['one', 'two'] }]);
  });

  test('are removed also if one of them cannot be', async () => {
    using scratch = new Scratch('deleted');
    await using node = await Node.open(scratch);
    const deleted = noted(scratch);
    const createdAt = new Date().toISOString();
    for (const name of ['old', 'young'])
      await deleted.write({ id: idOf(name), createdAt, generation: 1, pools: ['one'] });
    mock.method(movesOf(node.pools.get('one')).snapshots, 'removeOlder', async (each: SnapshotId) => {
      if (each === idOf('old')) throw new Unavailable('pool one does not answer.');
    });
    const { objects, pools } = node;
    const left = new LeftCopies({ pools, objects, log: quiet, retryMs: 10, deleted, isComing });
    assert.deepEqual([...(await left.removeDeleted())], [idOf('old')]);
    assert.deepEqual(
      deleted.all().map((each) => each.id),
      [idOf('old')],
    );
  });
});

describe('an order for snapshots', () => {
  test('is not held back, and no deletion of one, by a pool that hangs and has nothing of it', async () => {
    using scratch = new Scratch('hangs');
    await using node = await Node.open(scratch, [sized('one'), sized('two'), sized('three')]);
    await withSnapshots(node);
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    const three = movesOf(node.pools.get('three')).snapshots;
    const gate = Promise.withResolvers<void>();
    const hangs = [
      mock.method(three, 'arriving', async () => {
        await gate.promise;
        return [];
      }),
      mock.method(three, 'discard', () => gate.promise),
    ];
    const notes = () => readdirSync(scratch.join('data/deleted-snapshots'));
    try {
      await node.remove(idOf('young'));
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
      assert.equal(notes().length, 1);
    } finally {
      gate.resolve();
      for (const each of hangs) each.mock.restore();
    }
    await eventually(() => assert.deepEqual(notes(), []));
  });

  test('is refused to be deleted before anything is removed, if it is a member of a group', async () => {
    using scratch = new Scratch('member');
    await using node = await Node.open(scratch);
    const one = node.pools.get('one');
    await one.create(spec);
    const group = groupIdFor('node', 'group');
    const member = memberIdFor(group, id);
    const taken = { id: member, name: 'group', sourceId: id, parameters: {} };
    await one.takeSnapshots([taken], { id: group, name: 'group', parameters: {} });
    const removal = mock.method(node.mover, 'beforeSnapshotRemoval');
    await assert.rejects(node.remove(member), { code: 'INVALID_ARGUMENT', message: /is a member of/ });
    assert.equal(removal.mock.callCount(), 0);
  });

  test('waits while those of several other volumes are copied to the pool', async () => {
    using scratch = new Scratch('turns');
    await using node = await Node.open(scratch);
    const specs = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ ...spec, id: volumeIdFor('node', 'test', name), name }));
    for (const each of specs) {
      const pool = node.pools.get('one');
      await pool.create(each);
      await pool.takeSnapshots([{ id: idOf(each.name), name: each.name, sourceId: each.id, parameters: {} }]);
    }
    const target = movesOf(node.pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    const gate = Promise.withResolvers<void>();
    let begun = 0;
    mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      begun++;
      await gate.promise;
      return receive(...args);
    });
    for (const each of specs) await node.mover.start(each.id, 'two', undefined, true);
    const troubles = () => node.mover.sights().flatMap(({ snapshots }) => snapshots?.trouble ?? []);
    try {
      await eventually(() => assert.equal(begun + troubles().length, 5));
      assert.equal(begun, 3);
      assert.ok(troubles().every((text) => text.includes('waits for its turn')));
    } finally {
      gate.resolve();
    }
    await eventually(async () => assert.deepEqual(await node.listed(), ['two/a', 'two/b', 'two/c', 'two/d', 'two/e']));
  });

  test('is forgotten a week after its end, also while the driver runs', async (t) => {
    using scratch = new Scratch('ends');
    await using node = await Node.open(scratch, undefined, undefined, 20);
    await withSnapshots(node);
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    const notes = () => readdirSync(scratch.join('data/snapshot-moves')).length;
    assert.equal(notes(), 1);
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 8 * 86_400_000 });
    await eventually(() => assert.deepEqual([notes(), node.mover.sights()], [0, []]));
  });

  test('that cannot be noted leaves the one before it as it was', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const commitAgain = refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    {
      using _sick = new FailingSync(scratch.join('data', 'snapshot-moves'));
      await assert.rejects(node.mover.start(id, 'two', undefined, true), /EIO/);
    }
    assert.equal(node.sight().snapshots?.job.state, 'running');
    commitAgain();
    assert.deepEqual((await node.ended()).snapshots.left, []);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
  });
});
