import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { MoveJobs } from '../../src/move/job.ts';
import { claimParameters } from '../../src/volume/claim.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';
import { blockSpec } from './two-nodes.ts';

const pools = (scratch: Scratch) => ({
  config: [
    'defaultPool: one',
    'pools:',
    `  one: { directory: ${scratch.join('one')} }`,
    `  two: { directory: ${scratch.join('two')} }`,
    `  plain: { kind: directory, path: ${scratch.join('plain')} }`,
    '',
  ].join('\n'),
});

describe('holdfast move', () => {
  test('shows what it would do, moves a volume, and says how that went', async () => {
    using scratch = new Scratch('move-command');
    await using driver = await DriverProcess.start(scratch, pools(scratch));
    const environment = environmentFor(scratch, pools(scratch));
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'data');
    const id = await volume.create(client);

    const plan = await holdfast(['move', 'data', '--to-pool', 'two', '--dry-run'], environment);
    assert.equal(plan.code, 0, plan.stderr);
    assert.match(
      plan.stdout,
      new RegExp(`^${id} \\(data\\): from pool one to pool two, .* of 64Mi \\(thin\\)\\.$`, 'm'),
    );
    assert.match(
      plan.stdout,
      /^It is copied while it is not in use, as pool one cannot tell what changes meanwhile\.$/m,
    );
    assert.match(plan.stdout, /^Its copy in pool one stays in the trash for a week\.$/m);
    assert.equal((await holdfast(['move', 'status'], environment)).stdout.trim().split('\n').length, 1);

    const moved = await holdfast(['move', 'data', '--to-pool', 'two', '--wait'], environment);
    assert.equal(moved.code, 0, moved.stderr);
    assert.match(moved.stdout, new RegExp(`^It is moving\\. Watch it: holdfast move status ${id}\\.`, 'm'));
    assert.match(moved.stdout, new RegExp(`^${id} is in pool two\\.$`, 'm'));
    const status = JSON.parse((await holdfast(['move', 'status', id, '--json'], environment)).stdout);
    assert.deepEqual(
      status.moves.map(({ from, state, to }: Record<string, string>) => [from, to, state]),
      [['one', 'two', 'done']],
    );
    // Both have it, one of them in the trash; its pod finds it where it is.
    await volume.stage(client, id);
    await volume.publish(client, id);
    const back = await holdfast(['move', id, '--to-pool', 'one', '--json'], environment);
    assert.equal(JSON.parse(back.stdout).plan.isInUse, true);
    const cancelled = await holdfast(['move', 'cancel', id], environment);
    assert.equal(cancelled.stdout, `${id} stays in pool two: the move to one is cancelled.\n`);
    await volume.unpublish(client, id);
    await volume.unstage(client, id);
  });

  test('says that a directory is copied while it is not in use, and moves it', async () => {
    using scratch = new Scratch('move-command');
    const options = pools(scratch);
    const config = `${options.config}  other: { kind: directory, path: ${scratch.join('other')} }\n`;
    await using driver = await DriverProcess.start(scratch, { config });
    const environment = environmentFor(scratch, { config });
    using client = driver.connect();
    const capability = { access_mode: { mode: 'SINGLE_NODE_WRITER' }, mount: {} } as const;
    const id = await new TestVolume(scratch, 'data', capability).create(client, { pool: 'plain' });
    const plan = await holdfast(['move', 'data', '--to-pool', 'other', '--dry-run'], environment);
    assert.match(plan.stdout, /from pool plain to pool other, .* of 64Mi \(thin\)\.$/m);
    assert.match(plan.stdout, /^It is copied while it is not in use, as pool plain cannot tell what changes/m);
    const moved = await holdfast(['move', 'data', '--to-pool', 'other', '--wait'], environment);
    assert.match(moved.stdout, new RegExp(`^${id} is in pool other\\.$`, 'm'));
    const refused = await holdfast(['move', 'data', '--to-pool', 'one'], environment);
    assert.match(refused.stderr, /cannot move to pool one: its volumes are no directories/);
  });

  test('says which snapshots follow a volume, and which have not', async () => {
    using scratch = new Scratch('move-command');
    const lines = ['one', 'two'].map((name) => `  ${name}: { file: ${scratch.join(`${name}.img`)}, size: 1Gi }`);
    const config = [
      'defaultPool: one',
      'pools:',
      ...lines,
      `  plain: { directory: ${scratch.join('plain')} }`,
      '',
    ].join('\n');
    const options = { config, environment: { HOLDFAST_MOVE_SNAPSHOTS: 'true' } };
    await using driver = await DriverProcess.start(scratch, options);
    const environment = environmentFor(scratch, options);
    using client = driver.connect();
    const id = await new TestVolume(scratch, 'data').create(client);
    for (const name of ['older', 'newer']) await client.controller.CreateSnapshot({ source_volume_id: id, name });
    const group = { name: 'group', source_volume_ids: [id] };
    await client.groupController.CreateVolumeGroupSnapshot(group);
    const plain = await holdfast(['move', 'data', '--to-pool', 'two', '--dry-run'], environment);
    assert.match(plain.stdout, /^Its snapshots \(3\) stay in pool one\.$/m);
    const flags = ['--to-pool', 'two', '--with-snapshots'];
    const plan = await holdfast(['move', 'data', ...flags, '--dry-run'], environment);
    assert.match(plan.stdout, /^Its snapshots \(2\) follow it, one after the other: up to .* more\.$/m);
    assert.match(plan.stdout, /^Snapshot .* stays in pool one: .* it is a member of group-/m);
    const moved = await holdfast(['move', 'data', ...flags, '--wait'], environment);
    assert.equal(moved.code, 0, moved.stderr);
    assert.match(moved.stdout, /^2 of its snapshots have followed it to pool two\.$/m);
    assert.match(moved.stderr, /is in pool one: .* it is a member of group-/);
    const status = await holdfast(['move', 'status'], environment);
    assert.match(status.stdout, /snapshots done: 2 moved/);
    const listed = JSON.parse((await holdfast(['snapshots', '--json'], environment)).stdout);
    assert.deepEqual(
      listed.snapshots
        .map(({ name, pool }: Record<string, string>) => `${pool}/${name}`)
        .sort()
        .slice(1),
      ['two/newer', 'two/older'],
    );
    const again = await holdfast(['move', 'data', ...flags], environment);
    assert.match(again.stderr, /is in pool two already, and no other pool has a snapshot of it that can move/);
    assert.match((await holdfast(['move', 'cancel', id], environment)).stderr, /is not moving/);
  });

  test('finds a volume that is in no pool yet by what its move knows of it', async () => {
    using scratch = new Scratch('move-command');
    const claim = { namespace: 'shop', name: 'data-db-0' };
    const { id } = blockSpec;
    const record: VolumeRecord = {
      ...{ id, name: 'data', sizeBytes: 1n << 20n, content: { type: 'block' }, parameters: claimParameters(claim) },
      ...{ accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin', blockSizeBytes: 512 },
      createdAt: new Date().toISOString(),
    };
    const startedAt = new Date().toISOString();
    const whole = { fenceId: 'any', generation: 0, record, at: startedAt };
    const job = { moveId: randomUUID(), id, from: 'gone', to: 'two', startedAt, state: 'running', whole } as const;
    await new MoveJobs(scratch.join('data'), new DiskQueue('node', 1)).write(job);
    await using _driver = await DriverProcess.start(scratch, pools(scratch));
    const environment = environmentFor(scratch, pools(scratch));
    for (const wanted of ['data', 'shop/data-db-0', id]) {
      const status = await holdfast(['move', 'status', wanted], environment);
      assert.match(status.stdout, new RegExp(`${id}.*all of it has come, as it was on pool gone at ${startedAt}`));
      const cancel = await holdfast(['move', 'cancel', wanted], environment);
      assert.match(
        cancel.stderr,
        /may have been handed over by pool gone.* To remove it instead: holdfast move cancel \S+ --even-so\.$/m,
      );
      const finish = await holdfast(['move', 'finish', wanted, '--pool-is-lost', 'gone'], environment);
      assert.match(finish.stderr, /has not come to pool two as a whole/);
    }
    const other = await holdfast(['move', 'cancel', 'shop/other'], environment);
    assert.match(other.stderr, /there is no volume 'shop\/other' .* by id, name or namespace\/claim/);
  });

  test('says why a volume cannot move', async () => {
    using scratch = new Scratch('move-command');
    await using driver = await DriverProcess.start(scratch, pools(scratch));
    const environment = environmentFor(scratch, pools(scratch));
    using client = driver.connect();
    const id = await new TestVolume(scratch, 'data').create(client);
    for (const [words, code, message] of [
      [['move', 'data'], 2, /say which pool it moves to: --to-pool POOL/],
      [['move', 'data', '--to-pool', 'two', '--limit', 'fast'], 2, /'fast' is not a size/],
      [['move', 'data', '--to-pool', 'one'], 1, /is in pool one already/],
      [
        ['move', 'data', '--to-pool', 'two', '--with-snapshots'],
        1,
        /has HOLDFAST_MOVE_SNAPSHOTS=true: this is experimental/,
      ],
      [['move', 'data', '--to-pool', 'plain'], 1, /cannot move to pool plain: it has no volumes with ext4/],
      [['move', 'status', id], 1, /has not moved of late/],
      [['move', 'cancel', id], 1, /is not moving: see holdfast move status/],
    ] as const) {
      const { code: found, stderr, stdout } = await holdfast([...words], environment);
      assert.equal(found, code, `${words.join(' ')}: ${stderr}${stdout}`);
      assert.match(stderr, message);
    }
  });
});
