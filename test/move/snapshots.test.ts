import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { snapshotMetadataService } from '../../src/snapshot-metadata/service.ts';
import { ResourceExhausted, Unavailable } from '../../src/volume/errors.ts';
import { groupIdFor, memberIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf } from './devices.ts';
import { call, id, idOf, mib, Node, refuseCommits, sized, spec, withSnapshots } from './following-node.ts';
import { movesOf } from './two-pools.ts';

describe('snapshots that follow their volume to another pool', () => {
  test('have the same bytes and records there, share what they can, and are there once', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    const before = await node.pools.get('one').findSnapshot(idOf('middle'));
    const usedBefore = await node.usedBytes('two');

    const plan = await node.mover.plan(id, 'two', true);
    assert.deepEqual(
      plan.following?.moving.map(({ record }) => record.name),
      ['young', 'middle', 'old'],
    );
    // All of the newest one, and what the others have that the next one has not.
    assert.equal(plan.following?.neededBytes, 42n * mib + 2n * mib + mib);
    await node.mover.start(id, 'two', undefined, true);
    const { snapshots, state } = await node.ended();
    assert.deepEqual([state, snapshots], ['done', { pools: ['one'], moved: 3, left: [] }]);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    for (const [name, digest] of Object.entries(digests)) assert.equal(await node.digest(name), digest);
    assert.deepEqual(await node.pools.get('two').findSnapshot(idOf('middle')), before);
    // The volume, and the two that were overwritten.
    const takenBytes = (await node.usedBytes('two')) - usedBefore;
    assert.ok(takenBytes < 48n * mib, `${takenBytes} bytes are taken`);
    assert.deepEqual(readdirSync(scratch.join('plain', 'tmp')), []);

    // And back, with what the driver knows after a restart.
    await node.mover.start(id, 'one', undefined, true);
    await node.ended();
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    for (const [name, digest] of Object.entries(digests)) assert.equal(await node.digest(name), digest);
  });

  test('tell changed blocks, make volumes, and are deleted, as the ones that were taken there', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    const two = node.pools.get('two');
    let changed = 0n;
    const { signal } = new AbortController();
    for await (const { lengthBytes, offsetBytes } of two.changedRanges({
      ...{ base: idOf('middle'), target: idOf('young'), fromBytes: 0n, signal },
    })) {
      assert.ok(offsetBytes >= 50n * mib && offsetBytes + lengthBytes <= 52n * mib, `${offsetBytes} ${lengthBytes}`);
      changed += lengthBytes;
    }
    assert.equal(changed, 2n * mib);
    const clone = volumeSpec('clone', { content: { type: 'block' }, sizeBytes: spec.sizeBytes });
    const { pool } = (await node.pools.findSnapshot(idOf('old'))) ?? assert.fail();
    await pool.create(clone, { type: 'snapshot', id: idOf('old') });
    {
      await using shown = await deviceOf(node, clone.id);
      assert.equal(createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex'), digests.old);
    }
    for (const name of ['old', 'middle', 'young']) await node.remove(idOf(name));
    assert.deepEqual(await node.listed(), []);
    // Its name can be used again, in any pool.
    assert.notEqual(await node.snapshot('old', randomBytes(4096), 0n), digests.old);
  });

  test('stay if they are members of a group, and the plan says so', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const groupId = groupIdFor('node', 'group');
    const member = memberIdFor(groupId, id);
    const group = { id: groupId, name: 'group', parameters: {} };
    const one = node.pools.get('one');
    await one.takeSnapshots([{ id: member, name: 'member', sourceId: id, parameters: {} }], group);
    const { following } = await node.mover.plan(id, 'two', true);
    assert.equal(following?.moving.length, 3);
    assert.match(following?.staying[0]?.reason ?? '', /it is a member of group-/);
    await node.mover.start(id, 'two', undefined, true);
    const { snapshots } = await node.ended();
    assert.deepEqual(
      snapshots.left.map(({ name, pool, stays }) => [name, pool, stays]),
      [['member', 'one', true]],
    );
    assert.deepEqual(await node.listed(), ['one/member', 'two/middle', 'two/old', 'two/young']);
  });

  test('are refused before anything is changed: by a pool that cannot share blocks, or has no room for them', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch, [sized('one'), sized('two', 400n * mib)]);
    await withSnapshots(node);
    if ((await node.pools.get('plain').traits.snapshots) === 'copy') {
      await assert.rejects(node.mover.start(id, 'plain', undefined, true), /blocks cannot be shared there/);
    }
    for (const name of ['a', 'b', 'c', 'd']) {
      await node.snapshot(name, randomBytes(90 << 20), 0n);
    }
    await node.mover.plan(id, 'two');
    await assert.rejects(
      node.mover.start(id, 'two', undefined, true),
      /does not fit into pool two: .* its snapshots up to/,
    );
    assert.equal((await node.pools.require(id)).pool.name, 'one');
    assert.deepEqual(node.mover.sights(), []);
  });

  test('that fail stay where they can be used; the same order moves the rest', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    const target = movesOf(node.pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    const broken = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      if (args[0].name !== 'middle') return incoming;
      incoming.note = async () => {
        throw new ResourceExhausted('pool two is full.');
      };
      return incoming;
    });
    await node.mover.start(id, 'two', undefined, true);
    const { snapshots, state } = await node.ended();
    assert.deepEqual([state, snapshots.moved], ['done', 2]);
    assert.deepEqual(snapshots.left, [
      { id: idOf('middle'), name: 'middle', pool: 'one', reason: 'pool two is full.', stays: false },
    ]);
    assert.deepEqual(await node.listed(), ['one/middle', 'two/old', 'two/young']);
    assert.equal(await node.digest('middle'), digests.middle);
    assert.equal((await movesOf(node.pools.get('one')).snapshots.stateOf(idOf('middle'))).mark.fence, undefined);
    broken.mock.restore();

    assert.equal((await node.mover.start(id, 'two', undefined, true)).plan.from, 'two');
    assert.deepEqual((await node.ended()).snapshots.left, []);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    assert.equal(await node.digest('middle'), digests.middle);
    await assert.rejects(node.mover.start(id, 'two', undefined, true), /no other pool has a snapshot of it/);
  });

  test('are given up where they are, with what has moved left where it is', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    await node.mover.start(id, 'two', 1n << 20n, true);
    await eventually(() => assert.ok((node.sight().snapshots?.progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await node.mover.cancel(id)).state, 'cancelled');
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    for (const [name, digest] of Object.entries(digests)) assert.equal(await node.digest(name), digest);
    await assert.rejects(node.mover.cancel(id), { name: 'NotFound' });
  });

  test('a snapshot that is deleted while it is copied is gone, and the others follow', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    await node.mover.start(id, 'two', 8n << 20n, true);
    await eventually(() => assert.ok((node.sight().snapshots?.progress?.doneBytes ?? 0n) > 0n));
    await node.remove(idOf('young'));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
    await node.mover.cancel(id);
    await node.mover.start(id, 'two', undefined, true);
    assert.deepEqual((await node.ended()).snapshots.left, []);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
  });

  test('a snapshot that was handed over, and cannot arrive, is nowhere until that is given up; then it is where it was', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
    await assert.rejects(node.remove(idOf('young')), { name: 'Unavailable', message: /is being handed over/ });
    // It is not said that there is none.
    for (const find of [node.pools.findSnapshot(idOf('young')), node.pools.findMadeSnapshot(idOf('young'))]) {
      await assert.rejects(find, { name: 'Unavailable', message: /has not arrived in another one/ });
    }
    await node.mover.cancel(id);
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    assert.equal(await node.digest('young'), digests.young);
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    await node.remove(idOf('young'));
  });

  test('a snapshot that has arrived is there once, and deleted once and for all, although its source has not heard of that', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const source = movesOf(node.pools.get('one')).snapshots;
    const deaf = mock.method(source, 'settle', async () => {
      throw new Unavailable('pool one does not answer.');
    });
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'two/young']);
    await node.remove(idOf('young'));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
    assert.equal(source.find(idOf('young')), undefined);
    deaf.mock.restore();
    await node.mover.cancel(id);
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
  });

  test('changed blocks of a snapshot that has moved and of one that has not are refused', async () => {
    using scratch = new Scratch('snapshots');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    const young = await node.snapshot('younger', randomBytes(4096), 0n);
    assert.notEqual(young, '');
    const service = snapshotMetadataService({ pools: node.pools, objects: node.objects });
    const request = { base_snapshot_id: idOf('young'), target_snapshot_id: idOf('younger') };
    const page = { starting_offset: 0n, max_results: 0, secrets: {} };
    const { signal } = new AbortController();
    const ask = async () => {
      for await (const _message of service.GetMetadataDelta?.({ ...request, ...page }, { ...call, signal }) ?? [])
        break;
    };
    await assert.rejects(ask, { name: 'FailedPrecondition', message: /lies in pool one, and .* in pool two/ });
  });
});
