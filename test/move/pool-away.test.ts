import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { showMove } from '../../src/admin/moving.ts';
import type { Moving } from '../../src/admin/protocol.ts';
import { printCancelled } from '../../src/cli/move.ts';
import type { Output } from '../../src/cli/output/output.ts';
import type { MoveJob } from '../../src/move/job.ts';
import { LeftVolumes } from '../../src/move/left-volumes.ts';
import { sightWithout } from '../../src/move/mover.ts';
import { moveMarkName } from '../../src/pool/records/move-marks.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { call, id, Node, sized, spec } from './following-node.ts';
import { movesOf, refuseVolumes } from './two-pools.ts';

async function digest(node: Node): Promise<string> {
  await using shown = await deviceOf(node, id);
  return digestOf(shown.devicePath);
}

/** A volume in pool one. @returns its digest */
async function withVolume(node: Node): Promise<string> {
  await node.pools.get('one').create(spec);
  {
    await using shown = await deviceOf(node, id);
    write(shown.devicePath, randomBytes(8 << 20), 0n);
  }
  return digest(node);
}

/** Pool one has handed the volume over, and pool two has not committed it. */
async function handedOver(scratch: Scratch): Promise<{ readonly before: string; readonly drafts: readonly string[] }> {
  await using node = await Node.open(scratch);
  const before = await withVolume(node);
  refuseVolumes(node.pools.get('two'));
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().trouble, 'pool two does not answer.'));
  return { before, drafts: draftsIn(scratch) };
}

/** The volume has arrived in pool two, and pool one has not heard of it. */
async function arrived(scratch: Scratch): Promise<string> {
  await using node = await Node.open(scratch);
  const before = await withVolume(node);
  mock.method(movesOf(node.pools.get('one')), 'settle', async () => {
    throw new Unavailable('pool one does not answer.');
  });
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().trouble, 'pool one does not answer.'));
  return before;
}

/** The text that a person sees of a move that was to be given up. */
const cancelText = (job: MoveJob, shown: Partial<Moving> = {}) => {
  const lines: string[] = [];
  const output: Output = { line: (text) => lines.push(text), problem: assert.fail, colours: false, width: undefined };
  printCancelled(output, { ...showMove(sightWithout(job)), ...shown }, false);
  return lines.join('\n');
};

const draftsIn = (scratch: Scratch) => readdirSync(scratch.join('data/pools/two/tmp'));
const deleted = async (node: Node) => {
  await node.controller.DeleteVolume?.({ volume_id: id, secrets: {} }, call);
};
const listed = async (node: Node) => {
  const { entries } =
    (await node.controller.ListVolumes?.({ starting_token: '', max_entries: 0 }, call)) ?? assert.fail();
  return entries?.map(({ volume }) => volume?.volume_id);
};

describe('a move whose first pool is away', () => {
  test('waits after the hand-over until that is in the configuration again, and the copy that may be the last one stays', async () => {
    using scratch = new Scratch('away');
    const { before, drafts } = await handedOver(scratch);
    assert.equal(drafts.length, 1);
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await eventually(() => assert.match(node.sight().trouble ?? '', /pool one, .* is not in the configuration/));
      await assert.rejects(node.mover.cancel(id), /may be the last copy, and stays/);
      assert.equal(node.sight().job.state, 'running');
      assert.deepEqual(draftsIn(scratch), drafts);
    }
    await using node = await Node.open(scratch);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    assert.equal(await digest(node), before);
  });

  test('and that has failed keeps that copy, too', async () => {
    using scratch = new Scratch('away');
    const { before, drafts } = await handedOver(scratch);
    const path = scratch.join('data/moves', `${id}.json`);
    const job = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...job, state: 'failed', endedAt: new Date().toISOString(), reason: 'any' }));
    {
      await using _node = await Node.open(scratch, [sized('two')]);
      assert.deepEqual(draftsIn(scratch), drafts);
    }
    await using node = await Node.open(scratch);
    await node.mover.cancel(id);
    assert.equal((await node.pools.require(id)).pool.name, 'one');
    assert.equal(await digest(node), before);
  });

  test('and which has an empty disk by then fails, and the copy that may be the last one stays', async () => {
    using scratch = new Scratch('away');
    const { drafts } = await handedOver(scratch);
    rmSync(scratch.join('one.img'));
    rmSync(scratch.join('data/pools/one.id'), { force: true });
    for (const endedAt of [new Date().toISOString(), '2020-01-01T00:00:00Z']) {
      await using node = await Node.open(scratch);
      await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      await assert.rejects(node.mover.cancel(id), /may be the last copy, and stays/);
      assert.deepEqual(draftsIn(scratch), drafts);
      const path = scratch.join('data/moves', `${id}.json`);
      writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), endedAt }));
    }
    await using node = await Node.open(scratch);
    assert.deepEqual(draftsIn(scratch), drafts);
    await deleted(node);
    assert.deepEqual(draftsIn(scratch), []);
  });

  test('is ended by hand once the volume has arrived; then the volume is listed once, and deleted with the copy that was left', async () => {
    using scratch = new Scratch('away');
    const before = await arrived(scratch);
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await eventually(() => assert.match(node.sight().trouble ?? '', /is not in the configuration/));
      const job = await node.mover.cancel(id);
      assert.equal(job.state, 'done');
      const end = `${id} is in pool two: it has arrived there, and its move has ended.`;
      assert.equal(cancelText(job), end);
      // The same between nodes.
      assert.equal(cancelText(job, { fromNode: 'a' }), end);
      assert.equal(await digest(node), before);
    }
    await using node = await Node.open(scratch);
    assert.deepEqual(await listed(node), [id]);
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    await deleted(node);
    assert.deepEqual(await listed(node), []);
  });

  test('and is back once the volume was deleted: the copy that was left goes to the trash with the next deletion', async () => {
    using scratch = new Scratch('away');
    await arrived(scratch);
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await node.mover.cancel(id);
      await deleted(node);
    }
    await using node = await Node.open(scratch);
    const one = node.pools.get('one');
    assert.equal((await movesOf(one).stateOf(id)).why, 'given');
    await deleted(node);
    assert.deepEqual(await listed(node), []);
    assert.deepEqual(
      (await one.trash()).map(({ isLeft, record }) => [record.id, isLeft]),
      [[id, true]],
    );
    await deleted(node);
  });

  test('and two are back once the volume was deleted: the copies that were left go to the trash with the next deletion', async () => {
    using scratch = new Scratch('away');
    const all = [sized('one'), sized('two'), sized('three')];
    const [one, two] = [scratch.join('one.img'), scratch.join('two.img')];
    /** The volume moves on, and its pool is as it was before that has heard of it. */
    const movedOn = async (from: string, to: string) => {
      {
        await using node = await Node.open(scratch, all);
        if (from === 'one') await withVolume(node);
        mock.method(movesOf(node.pools.get(from)), 'settle', async () => {
          throw new Unavailable('no answer.');
        });
        await node.mover.start(id, to, undefined);
        await eventually(() => assert.equal(node.sight().trouble, 'no answer.'));
      }
      copyFileSync(scratch.join(`${from}.img`), scratch.join(`${from}.old`));
      await using node = await Node.open(scratch, all);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    };
    await movedOn('one', 'two');
    await movedOn('two', 'three');
    {
      await using node = await Node.open(scratch, all);
      await deleted(node);
    }
    for (const image of [one, two]) copyFileSync(image.replace(/img$/, 'old'), image);
    await using node = await Node.open(scratch, all);
    await deleted(node);
    assert.deepEqual(await listed(node), []);
    const trashed = await Promise.all(['one', 'two'].map((name) => node.pools.get(name).trash()));
    assert.deepEqual(
      trashed.map(([entry]) => [entry?.record.id, entry?.isLeft]),
      [
        [id, true],
        [id, true],
      ],
    );
    await deleted(node);
  });

  test('and is not deleted while all of it waits, though the driver has lost its notes', async () => {
    using scratch = new Scratch('away');
    const { drafts } = await handedOver(scratch);
    for (const name of ['moves', 'moved']) rmSync(scratch.join('data', name), { recursive: true });
    await using node = await Node.open(scratch);
    await assert.rejects(deleted(node), /was handed over by pool one/);
    assert.deepEqual(draftsIn(scratch), drafts);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given');
  });

  test('keeps the volume from being deleted; once that is open, the deletion goes on', async () => {
    using scratch = new Scratch('away');
    const before = await arrived(scratch);
    const away = ['one'];
    await using node = await Node.open(scratch, undefined, away);
    await assert.rejects(deleted(node), { code: 'UNAVAILABLE', message: /pool one, which is not open/ });
    assert.equal(await digest(node), before);
    away.length = 0;
    await eventually(() => deleted(node));
    assert.deepEqual(await listed(node), []);
    await eventually(() => assert.notEqual(node.sight().job.state, 'running'));
  });
});

describe('a copy whose first pool is lost', () => {
  const lost = { lostPool: 'one' };

  test('becomes the volume by the word of an operator, and the copy that comes back is never used', async () => {
    using scratch = new Scratch('away');
    const { before } = await handedOver(scratch);
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await assert.rejects(
        node.mover.finish(id, { lostPool: 'two' }),
        /is moving here from pool one, and not from pool two/,
      );
      await assert.rejects(
        node.mover.finish(id, { lostNode: 'b' }),
        /is moving here from pool one, and not from node b/,
      );
      const { state, to } = await node.mover.finish(id, lost);
      assert.deepEqual([state, to], ['done', 'two']);
      // Any copy that comes back is an earlier one by the note.
      assert.equal((await movesOf(node.pools.get('two')).noted(id)).generation, 2);
      assert.equal(await digest(node), before);
      assert.deepEqual(draftsIn(scratch), []);
      await assert.rejects(node.mover.finish(id, lost), { name: 'NotFound' });
    }
    await using node = await Node.open(scratch);
    assert.deepEqual(await listed(node), [id]);
    const { mark, why } = await movesOf(node.pools.get('one')).stateOf(id);
    assert.equal(why, 'given');
    assert.ok(mark.generation < (await movesOf(node.pools.get('two')).stateOf(id)).mark.generation);
    await assert.rejects(node.pools.get('one').attach(id, { persistent: false }), /was handed over by pool one/);
    await node.mover.cancel(id);
    assert.equal(await node.pools.get('one').find(id), undefined);
    assert.equal(await digest(node), before);
  });

  test('does so where that pool has an empty disk by now', async () => {
    using scratch = new Scratch('away');
    const { before } = await handedOver(scratch);
    rmSync(scratch.join('one.img'));
    rmSync(scratch.join('data/pools/one.id'), { force: true });
    await using node = await Node.open(scratch);
    await node.mover.finish(id, lost);
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    assert.equal(await digest(node), before);
  });

  test('does not as long as that is in the configuration, and is not open, or has the volume', async () => {
    using scratch = new Scratch('away');
    const { drafts } = await handedOver(scratch);
    const away = ['one'];
    {
      await using node = await Node.open(scratch, undefined, away);
      await assert.rejects(node.mover.finish(id, lost), {
        name: 'Unavailable',
        message: /pool one, which is not open/,
      });
      assert.equal(node.sight().job.state, 'running');
    }
    away[0] = 'two';
    {
      await using node = await Node.open(scratch, [sized('two')], away);
      await assert.rejects(node.mover.finish(id, lost), {
        name: 'Unavailable',
        message: /pool two could not be opened/,
      });
    }
    const path = scratch.join('data/moves', `${id}.json`);
    const job = { ...JSON.parse(readFileSync(path, 'utf8')), endedAt: new Date().toISOString() };
    writeFileSync(path, JSON.stringify({ ...job, state: 'failed', reason: 'any' }));
    await using node = await Node.open(scratch);
    await assert.rejects(
      node.mover.finish(id, lost),
      /pool one has its copy, and is not lost. The move goes on from there/,
    );
    assert.deepEqual(draftsIn(scratch), drafts);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).mark.generation, 0);
    await node.mover.cancel(id);
    assert.equal((await node.pools.require(id)).pool.name, 'one');
  });

  test('does not if it is not whole, or nothing says which copies are later ones', async () => {
    using scratch = new Scratch('away');
    await cutShort(scratch);
    {
      await using node = await Node.open(scratch, [sized('two')]);
      await assert.rejects(node.mover.finish(id, lost), /has not come to pool two as a whole/);
      assert.equal(draftsIn(scratch).length, 1);
    }
    using other = new Scratch('away');
    await handedOver(other);
    const path = other.join('data/moves', `${id}.json`);
    const job = JSON.parse(readFileSync(path, 'utf8'));
    for (const whole of [undefined, { ...job.whole, fenceId: 'another' }]) {
      writeFileSync(path, JSON.stringify({ ...job, whole }));
      await using node = await Node.open(other, [sized('two')]);
      await assert.rejects(
        node.mover.finish(id, lost),
        /from a driver that is older, or this node has lost what it noted/,
      );
      assert.equal(draftsIn(other).length, 1);
    }
  });

  test('which was to become the volume, and did not: the copy of that pool, which had no fence any more, is it again', async () => {
    using scratch = new Scratch('away');
    const before = await failedWithoutFence(scratch);
    const note = scratch.join('data/moved', `${id}.json`);
    writeFileSync(note, JSON.stringify({ ...JSON.parse(readFileSync(note, 'utf8')), generation: 2 }));
    await using node = await Node.open(scratch);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
    // What waits in pool two may be later.
    await assert.rejects(node.mover.cancel(id), { message: /may be the last copy, and stays/ });
    await node.mover.cancel(id, undefined, undefined, true);
    assert.equal((await node.pools.require(id)).pool.name, 'one');
    assert.equal(await digest(node), before);
  });
});

/** The fence had ended before pool one was lost, and the driver was killed before the commit. @returns the volume's digest */
async function failedWithoutFence(scratch: Scratch): Promise<string> {
  const { before } = await handedOver(scratch);
  const path = scratch.join('data/moves', `${id}.json`);
  const job = { ...JSON.parse(readFileSync(path, 'utf8')), endedAt: new Date().toISOString() };
  writeFileSync(path, JSON.stringify({ ...job, state: 'failed', reason: 'any' }));
  {
    await using _node = await Node.open(scratch);
    rmSync(scratch.join('data/pools/one/volumes', id, moveMarkName));
  }
  return before;
}

/** The fence has ended at pool one, which is lost then; the volume is finished in pool two, and pool one is there again. @returns its digest */
async function finishedWithoutFence(scratch: Scratch): Promise<string> {
  const before = await failedWithoutFence(scratch);
  await using node = await Node.open(scratch, [sized('two')]);
  await node.mover.finish(id, { lostPool: 'one' });
  return before;
}

describe('the deletion of a volume whose pool is lost', () => {
  /** Pool two has it, and is not in the configuration any more. */
  async function lostAfterMove(scratch: Scratch): Promise<Node> {
    {
      await using node = await Node.open(scratch);
      await withVolume(node);
      await node.mover.start(id, 'two', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    return Node.open(scratch, [sized('one')]);
  }

  test('gives its name free', async () => {
    using scratch = new Scratch('away');
    await using node = await lostAfterMove(scratch);
    const one = node.pools.get('one');
    await assert.rejects(one.create(spec), { name: 'AlreadyExists', message: /delete that volume/ });
    await deleted(node);
    const { createdAt } = await one.create(spec);
    assert.equal((await movesOf(one).stateOf(id)).why, undefined);
    await digest(node);
    await deleted(node);
    assert.notEqual((await one.create(spec)).createdAt, createdAt);
    await digest(node);
  });

  test('leaves its older copies unused, and the volume is deleted with the disk there again', async () => {
    using scratch = new Scratch('away');
    {
      await using node = await lostAfterMove(scratch);
      await deleted(node);
      await deleted(node);
      await node.pools.get('one').restore(id);
      assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given');
    }
    await using node = await Node.open(scratch);
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    await digest(node);
    await deleted(node);
    assert.deepEqual(await listed(node), []);
  });
});

test('a volume in a pool whose volumes do not move is deleted while another pool is not open', async () => {
  using scratch = new Scratch('pool-away');
  {
    await using node = await Node.open(scratch);
    await node.pools.get('plain').create(spec);
  }
  await using node = await Node.open(scratch, undefined, ['two']);
  // As a pool on an NFS server.
  Object.defineProperty(node.pools.get('plain'), 'moves', { value: undefined });
  await node.controller.DeleteVolume?.({ volume_id: id, secrets: {} }, call);
  assert.equal(await node.pools.get('plain').find(id), undefined);
});

test('the name of a volume that another node may have stays taken', async () => {
  using scratch = new Scratch('away');
  await using node = await Node.open(scratch);
  await withVolume(node);
  const moves = movesOf(node.pools.get('one'));
  const { fenceId } = await moves.close(id, { moveId: 'any', fenceId: 'any', to: 'b' });
  await moves.give(id, { moveId: 'any', fenceId });
  await moves.settle(id, { moveId: 'any', generation: 1 });
  await deleted(node);
  assert.deepEqual(await moves.noted(id), { generation: 1, at: 'b', node: 'node' });
  await assert.rejects(node.pools.get('one').create(spec), { name: 'AlreadyExists', message: /has moved to node b/ });
});

describe('the deletion of a volume that was finished without its first pool', () => {
  test('puts the copy there, which has no fence, into the trash: it is not the volume then', async () => {
    using scratch = new Scratch('away');
    await finishedWithoutFence(scratch);
    await using node = await Node.open(scratch);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
    assert.deepEqual(await listed(node), [id]);
    await deleted(node);
    assert.deepEqual(await listed(node), []);
    assert.equal(await node.pools.get('one').find(id), undefined);
  });

  test('is refused as long as that copy stays, or the pool is not open', async () => {
    using scratch = new Scratch('away');
    const before = await finishedWithoutFence(scratch);
    {
      await using node = await Node.open(scratch);
      const settled = mock.method(movesOf(node.pools.get('one')), 'settle', async () => false);
      await assert.rejects(deleted(node), {
        code: 'UNAVAILABLE',
        message: /is in pool two, and pool one has a copy of it that is no earlier one.* move the copy out of pool one/,
      });
      settled.mock.restore();
      assert.equal(await digest(node), before);
    }
    const away = ['one'];
    await using node = await Node.open(scratch, undefined, away);
    await assert.rejects(deleted(node), { code: 'UNAVAILABLE', message: /pool one, which is not open/ });
    assert.equal(await digest(node), before);
    away.length = 0;
    await eventually(() => deleted(node));
    assert.deepEqual(await listed(node), []);
  });
});

/** The driver has stopped while the volume was being copied to pool two. */
async function cutShort(scratch: Scratch): Promise<void> {
  await using node = await Node.open(scratch);
  await withVolume(node);
  await node.mover.start(id, 'two', 1n << 20n);
  await eventually(() => assert.ok((node.sight().progress?.doneBytes ?? 0n) > 0n));
  assert.equal(draftsIn(scratch).length, 1);
}

describe('a part of a volume, which can never become it', () => {
  /** The volume has come to the node, and within it, before. */
  async function cutShortLater(scratch: Scratch): Promise<void> {
    await using node = await Node.open(scratch);
    await withVolume(node);
    for (const to of ['two', 'one']) {
      await node.mover.start(id, to, undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    await node.mover.start(id, 'two', 1n << 20n);
    await eventually(() => assert.ok((node.sight().progress?.doneBytes ?? 0n) > 0n));
  }

  test('is removed by a cancel where the first pool has an empty disk, also if the volume has moved before', async () => {
    using scratch = new Scratch('away');
    await cutShortLater(scratch);
    rmSync(scratch.join('one.img'));
    rmSync(scratch.join('data/pools/one.id'), { force: true });
    await using node = await Node.open(scratch);
    await eventually(() => assert.equal(node.sight().job.state, 'failed'));
    assert.equal((await node.mover.cancel(id)).state, 'cancelled');
    await eventually(() => assert.deepEqual(draftsIn(scratch), []));
  });

  for (const how of ['comes back', 'comes back weeks later', 'comes back, and opens late'] as const) {
    test(`is removed by a cancel where the first pool is lost; if that ${how}, its volume can be used`, async () => {
      using scratch = new Scratch('away');
      await cutShortLater(scratch);
      {
        await using node = await Node.open(scratch, [sized('two')]);
        await eventually(() => assert.match(node.sight().trouble ?? '', /is not in the configuration/));
        assert.equal((await node.mover.cancel(id)).state, 'cancelled');
        assert.deepEqual(draftsIn(scratch), []);
      }
      const path = scratch.join('data/moves', `${id}.json`);
      const note = JSON.parse(readFileSync(path, 'utf8')) as { moveId: string };
      {
        await using node = await Node.open(scratch);
        const one = node.pools.get('one');
        assert.deepEqual(await one.listSnapshots(undefined, undefined, id), []);
        // It stands if the copy was made while the volume was not in use.
        await movesOf(one).close(id, { moveId: note.moveId, fenceId: 'any' });
      }
      const away: string[] = [];
      if (how === 'comes back weeks later') {
        const endedAt = new Date(Date.now() - 30 * 86_400_000).toISOString();
        writeFileSync(path, JSON.stringify({ ...note, endedAt }));
        await using node = await Node.open(scratch, [sized('two')]);
        assert.deepEqual(node.mover.sights(), []);
      } else if (how === 'comes back, and opens late') away.push('one');
      await using node = await Node.open(scratch, undefined, away, 100);
      away.length = 0;
      await eventually(async () => {
        assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, undefined);
      });
    });
  }
});

describe('a move whose second pool is away', () => {
  for (const isDeleted of [false, true]) {
    test(`leaves nothing there once that is open, if ${isDeleted ? 'the volume was deleted' : 'it was given up'} meanwhile`, async () => {
      using scratch = new Scratch('away');
      await cutShort(scratch);
      const away = ['two'];
      await using node = await Node.open(scratch, undefined, away);
      await (isDeleted ? deleted(node) : node.mover.cancel(id));
      away.length = 0;
      await eventually(() => assert.deepEqual(draftsIn(scratch), []));
      assert.deepEqual(await listed(node), isDeleted ? [] : [id]);
    });
  }

  test('that has failed keeps its part there, as long as it may go on with that, or may be the last copy', async () => {
    using scratch = new Scratch('away');
    await cutShort(scratch);
    rmSync(scratch.join('data/moves'), { recursive: true });
    // Nothing here knows of the move.
    const away = ['one'];
    await using node = await Node.open(scratch, undefined, away);
    const { objects, pools } = node;
    const kept = async (job?: Partial<MoveJob>, isRunning = false) => {
      const startedAt = new Date().toISOString();
      const common = {
        moveId: '',
        id,
        from: 'one',
        to: 'two',
        startedAt,
        endedAt: startedAt,
        state: 'failed',
      } as const;
      const jobOf = () => job && { job: { ...common, ...job }, isRunning };
      const left = new LeftVolumes({ pools, objects, log: quiet, retryMs: 10, jobOf });
      const removed = left.remove();
      if (pools.firstClosed() === undefined) await removed;
      else await eventually(async () => assert.ok(lists.mock.callCount() > 1));
      await left.stop();
      return draftsIn(scratch).length === 1;
    };
    const lists = mock.method(movesOf(pools.get('two')), 'arriving');
    for (const job of [undefined, {}, { node: 'b' }, { to: 'plain' }]) {
      lists.mock.resetCalls();
      assert.equal(await kept(job), true, JSON.stringify(job));
    }
    away.length = 0;
    await eventually(() => assert.equal(pools.firstClosed(), undefined));
    for (const job of [{}, { node: 'b' }]) assert.equal(await kept(job), true, JSON.stringify(job));
    assert.equal(await kept({ state: 'cancelled' }, true), true);
    const one = movesOf(pools.get('one'));
    await one.close(id, { moveId: 'any', fenceId: 'any' });
    assert.equal(await kept(), true);
    await one.open(id, 'any');
    // The volume is another one by now.
    assert.equal(await kept({ endedAt: '2020-01-01T00:00:00Z' }), false);
  });
});

test('a pool that has another disk for a moment, a week after a move to it has failed, loses no note of all that had come', async () => {
  using scratch = new Scratch('away');
  const path = scratch.join('data', 'moves', `${id}.json`);
  const exchange = (from: string, to: string) => {
    renameSync(scratch.join(from), scratch.join(to));
    rmSync(scratch.join('data/pools/two.id'));
  };
  let before: string;
  {
    await using node = await Node.open(scratch);
    before = await withVolume(node);
    mock.method(movesOf(node.pools.get('one')), 'give', async () => {
      throw new Error('refused by the test');
    });
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'failed'));
  }
  for (const lost of ['one.img', 'data/pools/one.id']) rmSync(scratch.join(lost));
  const longAgo = new Date(Date.now() - 8 * 86_400_000).toISOString();
  const job = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify({ ...job, endedAt: longAgo, startedAt: longAgo }));
  exchange('two.img', 'two.out');
  {
    await using _node = await Node.open(scratch);
  }
  rmSync(scratch.join('two.img'));
  exchange('two.out', 'two.img');
  await using node = await Node.open(scratch);
  assert.equal((await node.mover.finish(id, { lostPool: 'one' }, true)).state, 'done');
  assert.equal(await digest(node), before);
});
