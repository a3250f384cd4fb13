import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { groupControllerService } from '../../src/controller/snapshots/group-service.ts';
import { InventoryTeller } from '../../src/fleet/node/inventory-teller.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { snapshotMetadataService } from '../../src/snapshot-metadata/service.ts';
import { NotFound, Unavailable } from '../../src/volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../src/volume/id.ts';
import { holdfast } from '../support/command.ts';
import { environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf } from './devices.ts';
import { call, id, idOf, Node, refuseCommits, spec, withSnapshots } from './following-node.ts';
import { movesOf } from './two-pools.ts';

const block = { access_mode: { mode: 'SINGLE_NODE_WRITER' }, access_type: 'block', block: {}, mount: null } as const;

function createSnapshot(node: Node, name: string) {
  return node.controller.CreateSnapshot?.({ name, source_volume_id: id, parameters: {}, secrets: {} }, call);
}

type Source = { readonly snapshot: { snapshot_id: string } } | { readonly volume: { volume_id: string } };

function createVolume(node: Node, name: string, source: Source, segments?: Readonly<Record<string, string>>) {
  const topologies = segments === undefined ? [] : [{ segments }];
  return node.controller.CreateVolume?.(
    {
      ...{ name, parameters: {}, mutable_parameters: {}, secrets: {}, volume_capabilities: [block] },
      capacity_range: { required_bytes: spec.sizeBytes, limit_bytes: 0n },
      volume_content_source: { snapshot: null, volume: null, ...source },
      accessibility_requirements: segments === undefined ? null : { requisite: topologies, preferred: topologies },
    },
    call,
  );
}

async function readAllocated(node: Node, snapshot_id: string): Promise<bigint> {
  const service = snapshotMetadataService({ pools: node.pools, objects: node.objects });
  const request = { snapshot_id, starting_offset: 0n, max_results: 0, secrets: {} };
  const { signal } = new AbortController();
  let bytes = 0n;
  for await (const { block_metadata } of service.GetMetadataAllocated?.(request, { ...call, signal }) ?? []) {
    for (const { size_bytes } of block_metadata ?? []) bytes += size_bytes ?? 0n;
  }
  return bytes;
}

/** The volume moves, and its snapshots after it. */
async function moveAll(node: Node, to: string): Promise<void> {
  await node.mover.start(id, to, undefined, true);
  await node.ended();
}

/** What `holdfast snapshots` shows: names and pools. */
async function shown(scratch: Scratch): Promise<string[]> {
  const poolLines = ['one', 'two'].map((name) => `  ${name}: { file: ${scratch.join(`${name}.img`)}, size: 1Gi }`);
  const config = ['defaultPool: one', 'pools:', ...poolLines, ''].join('\n');
  const { code, stderr, stdout } = await holdfast(['snapshots'], environmentFor(scratch, { config }));
  assert.deepEqual([code, stderr], [0, '']);
  const [, ...lines] = stdout.trimEnd().split('\n');
  return lines.map((line) => line.split(/ {2,}/).slice(1, 3).join(' ')).sort();
}

/** The ids that the node reports to its controller. */
async function reported(node: Node): Promise<string[]> {
  const ids: string[] = [];
  await new InventoryTeller(node.pools, ({ put }) => ids.push(...(put ?? []).map(({ id: each }) => each ?? ''))).tell();
  return ids;
}

/** From now on the first look of a pool for a snapshot waits for something. */
function beforeLook(pool: Pool, work: () => Promise<void>): void {
  const findSnapshot = pool.findSnapshot.bind(pool);
  let isFirst = true;
  mock.method(pool, 'findSnapshot', async (...args: Parameters<typeof findSnapshot>) => {
    const waits = isFirst;
    isFirst = false;
    if (waits) await work();
    return findSnapshot(...args);
  });
}

describe('the answers of a node while snapshots follow their volume', () => {
  test('are UNAVAILABLE for one that was handed over and has not arrived, and say where to look', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    const snapshot_id = idOf('young');
    const source = { snapshot: { snapshot_id } };
    const { controller } = node;
    const asked: Record<string, () => unknown> = {
      CreateSnapshot: () => createSnapshot(node, 'young'),
      CreateVolume: () => createVolume(node, 'copy', source),
      'CreateVolume with a topology': () => createVolume(node, 'copy', source, { 'holdfast.csi.dev/node': 'node' }),
      DeleteSnapshot: () => node.remove(snapshot_id),
      GetSnapshot: () => controller.GetSnapshot?.({ snapshot_id, secrets: {} }, call),
      ListSnapshots: () =>
        controller.ListSnapshots?.(
          { snapshot_id, source_volume_id: '', starting_token: '', max_entries: 0, secrets: {} },
          call,
        ),
      GetMetadataAllocated: () => readAllocated(node, snapshot_id),
    };
    for (const [name, ask] of Object.entries(asked)) {
      await assert.rejects(async () => ask(), { code: 'UNAVAILABLE', message: /see holdfast move status/ }, name);
    }
  });

  test('list it, once and as not ready, and every other one; so does what the node reports', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const commitAgain = refuseCommits(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    const names = new Map(['old', 'middle', 'young'].map((name) => [idOf(name) as string, name]));
    const list = async (source_volume_id: string, max_entries: number) => {
      const seen: string[] = [];
      for (let starting_token = ''; ; ) {
        const request = { snapshot_id: '', source_volume_id, starting_token, max_entries, secrets: {} };
        const page = (await node.controller.ListSnapshots?.(request, call)) ?? assert.fail();
        for (const { snapshot } of page.entries ?? []) {
          seen.push(`${names.get(snapshot?.snapshot_id ?? '')}${snapshot?.ready_to_use === true ? '' : ' not ready'}`);
        }
        starting_token = page.next_token ?? '';
        if (starting_token === '') return seen.sort();
      }
    };
    for (const [source, size] of [
      ['', 0],
      [id, 0],
      ['', 1],
      ['', 2],
    ] as const) {
      assert.deepEqual(await list(source, size), ['middle', 'old', 'young not ready']);
    }
    assert.deepEqual(await list('vol-00000000-0000-4000-8000-000000000000', 0), []);
    assert.ok((await reported(node)).includes(idOf('young')));
    assert.deepEqual(await shown(scratch), ['middle one', 'old one', 'young one, moving to two']);
    // Between its commit and the end of the copy that it has left, it is in both.
    const settle = mock.method(movesOf(node.pools.get('one')).snapshots, 'settle', async () => {
      throw new Unavailable('pool one does not answer.');
    });
    commitAgain();
    await node.mover.start(id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
    assert.deepEqual(await list('', 0), ['middle', 'old', 'young']);
    assert.deepEqual(await shown(scratch), ['middle one', 'old one', 'young two']);
    settle.mock.restore();
  });

  test('find one that moves while the pools are asked for it: never twice, and never not at all', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    // Pool one is asked first: it has it, and then the other one.
    beforeLook(node.pools.get('two'), () => moveAll(node, 'two'));
    assert.equal((await node.pools.findSnapshot(idOf('young')))?.pool.name, 'two');
    mock.restoreAll();
    // It has not, and then the other one has it no more.
    beforeLook(node.pools.get('two'), () => moveAll(node, 'one'));
    assert.equal((await node.pools.findSnapshot(idOf('young')))?.pool.name, 'one');
    mock.restoreAll();
  });

  test('are UNAVAILABLE where the volume has just moved that a snapshot, a group or a clone is made of', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    const digests = await withSnapshots(node);
    const moving = (method: 'find' | 'require', to: string) => {
      const { pools } = node;
      const look = method === 'find' ? pools.find.bind(pools) : pools.require.bind(pools);
      let isFirst = true;
      mock.method(pools, method, async (of: VolumeId) => {
        const found = await look(of);
        const moves = isFirst && of === id;
        isFirst = false;
        if (moves) {
          await node.mover.start(id, to, undefined);
          await eventually(() => assert.equal(node.sight().job.state, 'done'));
        }
        return found;
      });
    };
    const moved = { code: 'UNAVAILABLE', message: /has moved from pool .* to pool .* just now; try again/ };
    moving('require', 'two');
    await assert.rejects(async () => createSnapshot(node, 'now'), moved);
    mock.restoreAll();
    await createSnapshot(node, 'now');
    assert.equal((await node.pools.findSnapshot(idOf('now')))?.pool.name, 'two');

    moving('require', 'one');
    const { objects, pools } = node;
    const groups = groupControllerService({ nodeId: 'node', pools, objects });
    const group = { name: 'group', source_volume_ids: [id], parameters: {}, secrets: {} };
    await assert.rejects(async () => groups.CreateVolumeGroupSnapshot?.(group, call), moved);
    mock.restoreAll();

    moving('find', 'two');
    const source = { volume: { volume_id: id } };
    await assert.rejects(async () => createVolume(node, 'clone', source), moved);
    mock.restoreAll();
    const made = await createVolume(node, 'clone', source);
    const cloneId = parseVolumeId(made?.volume?.volume_id ?? '') ?? assert.fail();
    await using shown = await deviceOf(node, cloneId);
    assert.equal(createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex'), digests.young);
  });

  test('wait for a snapshot that begins as a clone of the same thing, as two at a time would disturb each other', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const target = movesOf(node.pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    const alone: string[] = [];
    mock.method(target, 'receive', (...[record, arrival]: Parameters<typeof receive>) =>
      receive(record, {
        ...arrival,
        alone: (of, work) =>
          arrival.alone(of, async () => {
            const made = await work();
            if (node.objects.busy(of)) alone.push(of);
            return made;
          }),
      }),
    );
    await moveAll(node, 'two');
    assert.deepEqual(alone, [id, idOf('young'), idOf('middle')]);
  });

  test('are UNAVAILABLE for the blocks of one that has moved before they were all told', async () => {
    using scratch = new Scratch('answers');
    await using node = await Node.open(scratch);
    await withSnapshots(node);
    const one = node.pools.get('one');
    mock.method(one, 'changedRanges', async function* () {
      await moveAll(node, 'two');
      yield* [];
      throw new NotFound('There is no such snapshot in pool one.');
    });
    await assert.rejects(readAllocated(node, idOf('young')), {
      code: 'UNAVAILABLE',
      message: /has moved from pool one to pool two meanwhile: ask again/,
    });
    assert.equal(await readAllocated(node, idOf('young')), 42n << 20n);
    mock.method(node.pools.get('two'), 'changedRanges', async function* () {
      yield* [];
      throw new NotFound('There is no such snapshot in pool two.');
    });
    await assert.rejects(readAllocated(node, idOf('young')), { code: 'NOT_FOUND' });
  });
});
