import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { readProject } from '../../../src/kernel/file/project-id.ts';
import { walkTree } from '../../../src/kernel/file/tree.ts';
import { Mover } from '../../../src/move/mover.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { Pools } from '../../../src/pool/pools.ts';
import { ObjectQueue } from '../../../src/volume/flow/object-queue.ts';
import { specsOf } from '../../contract/pool-contract.ts';
import type { DirectoryTestOptions } from '../../support/directory-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { mounted } from '../../support/mounted-volume.ts';
import { quiet } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';

const mebibyte = 1n << 20n;
const spec = specsOf({ type: 'directory' })('moved', { sizeBytes: 16n * mebibyte });
const { id } = spec;
const queue = new DiskQueue('test', 4);

/** Names in several directories, of entries of each type: a project lets none of them lead out of it. */
const entries = [
  'mkdir -p a/b c && echo 1 > a/file && ln a/file a/b/file && ln a/file c/file',
  'mkfifo a/fifo && ln a/fifo c/fifo && mknod a/null c 1 3 && ln a/null c/null',
  'ln -s nowhere a/symlink && ln a/symlink c/symlink && truncate -s 1G c/hole',
].join(' && ');

export interface MovedQuota {
  /** A directory of the scratch's on each filesystem. */
  readonly places: readonly string[];
  pathIn(place: string, scratch: Scratch): string;
  open(scratch: Scratch, options: DirectoryTestOptions): Promise<Catalog>;
}

/** Directories that move between pools with project quota, and one without. */
export function describeMovedQuota({ open, pathIn, places }: MovedQuota): void {
  async function withMover(
    work: (pools: Pools, move: (to: string) => Promise<unknown>, scratch: Scratch) => Promise<void>,
  ) {
    using scratch = new Scratch('quota');
    const opener =
      (name: string, options: DirectoryTestOptions = {}) =>
      (poolQueue: DiskQueue) =>
        open(scratch, { name, queue: poolQueue, path: pathIn(name, scratch), ...options });
    const free = opener('free', { path: `${pathIn(places[0] ?? '', scratch)}-free`, quota: 'none' });
    const pools = new Pools(new Map([...places.map((name) => [name, opener(name)] as const), ['free', free]]), 'free');
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = { pools, objects: new ObjectQueue(), dataDirectory: scratch.join('data') };
    const mover = new Mover({ ...node, queue: new DiskQueue('node', 2), log: quiet });
    await mover.resume();
    const jobOf = () => mover.sights().find(({ job }) => job.id === id)?.job;
    try {
      const move = async (to: string) => {
        await mover.start(id, to, undefined);
        await eventually(() => assert.notEqual(jobOf()?.state, 'running'), 120_000);
        return jobOf()?.reason ?? jobOf()?.state;
      };
      await work(pools, move, scratch);
    } finally {
      await mover.stop();
      await pools.close();
    }
  }

  describe('directories that move between pools with quota', () => {
    test('a full volume moves from each filesystem to the other: it is in one project, with its limit', async () => {
      await withMover(async (pools, move, scratch) => {
        const first = pools.get(places[0] ?? '');
        await first.create(spec);
        {
          await using volume = await mounted(first, id, scratch);
          execFileSync('sh', ['-c', entries], { cwd: volume.path });
          // As much as there is room for.
          execFileSync('sh', ['-c', 'dd if=/dev/urandom of=full bs=64k status=none || true'], { cwd: volume.path });
        }
        // Directories, names of files, and one more name after each move.
        let entryCount = 9;
        for (const to of [...places.slice(1), ...places]) {
          if ((await pools.require(id)).pool.name === to) continue;
          assert.equal(await move(to), 'done');
          const { pool } = await pools.require(id);
          assert.equal(pool.name, to);
          const usage = await pool.quotaUsage(id);
          assert.equal(usage?.bytes.total, spec.sizeBytes);
          const { path } = await pool.attach(id, { persistent: false }).then(async (attachment) => {
            await attachment.release();
            assert.equal(attachment.kind, 'directory');
            return attachment;
          });
          await using root = await openReadOnly(queue, path);
          const project = (await readProject(queue, root)).id;
          let count = 0;
          await walkTree(queue, root, async ({ file, status: { kind } }) => {
            if (kind !== 'file' && kind !== 'directory') return;
            count++;
            assert.deepEqual(await readProject(queue, file), { id: project, isInherited: kind === 'directory' });
          });
          assert.equal(count, entryCount++);
          // Another name in the project, also of what has no project of its own to be asked for.
          for (const name of ['file', 'fifo', 'null', 'symlink']) {
            execFileSync('ln', [join(path, 'a', name), join(path, 'c', `more-${name}-${entryCount}`)]);
          }
        }
      });
    });

    test('a volume that has more than its size is no more than that in a pool that holds sizes', async () => {
      await withMover(async (pools, move) => {
        const pool = pools.get('free');
        await pool.create(spec);
        const { path } = await pool.attach(id, { persistent: false }).then(async (attachment) => {
          await attachment.release();
          assert.equal(attachment.kind, 'directory');
          return attachment;
        });
        execFileSync('dd', ['if=/dev/urandom', `of=${join(path, 'large')}`, 'bs=1M', 'count=120', 'status=none']);
        // By the plan if it has been counted already, or by the copy.
        const outcome = (to: string) => move(to).catch(String);
        for (const to of places) assert.match(`${await outcome(to)}`, /has more in it than its size allows/);
        assert.equal((await pools.require(id)).pool.name, 'free');
        execFileSync('rm', [join(path, 'large')]);
        // A refusal has it counted again.
        await eventually(async () => assert.equal(await outcome(places[0] ?? ''), 'done'), 60_000);
      });
    });
  });
}
