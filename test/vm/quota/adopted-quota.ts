import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { type Project, readProject } from '../../../src/kernel/file/project-id.ts';
import { ProjectQuota } from '../../../src/kernel/file/project-quota.ts';
import { writeProjectOfTree } from '../../../src/kernel/file/project-tree.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import type { AdoptionSpec } from '../../../src/pool/pool.ts';
import { FailedPrecondition } from '../../../src/volume/errors.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { mounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';

const mebibyte = 1n << 20n;
const queue = new DiskQueue('test', 4);
const nobody = { id: 0, isInherited: false };

export interface QuotaPlace {
  readonly mountPoint: string;
  readonly rootOf: (scratch: Scratch) => string;
  readonly open: (scratch: Scratch) => Promise<Catalog>;
  readonly writeAsNobody: (path: string, mebibytes: number) => void;
}

async function projectOf(path: string): Promise<Project> {
  await using file = await openReadOnly(queue, path);
  return await readProject(queue, file);
}

/** What quota does with directories that become volumes. */
export function describeAdoptedQuota(kind: string, { mountPoint, open, rootOf, writeAsNobody }: QuotaPlace): void {
  const path = join(mountPoint, 'legacy');
  const spec: AdoptionSpec = {
    id: volumeIdFor('node', 'test', 'adopted'),
    name: 'adopted',
    accessModes: ['SINGLE_NODE_MULTI_WRITER'],
    parameters: {},
    sizeBytes: 16n * mebibyte,
    path,
  };
  const { id } = spec;

  /** Of what can be changed: a FIFO cannot, and chattr(1) ends with an error then. */
  function change(...what: readonly string[]): void {
    spawnSync('chattr', ['-R', '-f', ...what, path]);
  }

  async function onStage(work: (pool: Catalog, scratch: Scratch) => Promise<void>): Promise<void> {
    using scratch = new Scratch('adopted-quota');
    // Whoever is nobody has to get through.
    execFileSync('chmod', ['711', scratch.path]);
    mkdirSync(join(path, 'sub', 'deep'), { recursive: true });
    writeFileSync(join(path, 'sub', 'deep', 'file'), Buffer.alloc(4 << 20, 1));
    writeFileSync(join(path, 'fixed'), 'immutable');
    execFileSync('mkfifo', [join(path, 'fifo')]);
    execFileSync('chown', ['-R', '65534:65534', path]);
    const pool = await open(scratch);
    try {
      await work(pool, scratch);
    } finally {
      await pool.close();
      change('-i');
      rmSync(path, { recursive: true, force: true });
    }
  }

  describe(`${kind}: quota of what is adopted`, () => {
    test('the tree counts to its volume, which takes no more than its size; released, it counts to nobody', () =>
      onStage(async (pool, scratch) => {
        execFileSync('chattr', ['+i', join(path, 'fixed')]);
        await pool.adopt(spec);
        const root = rootOf(scratch);
        const project = Number(readFileSync(join(root, 'volumes', id, 'project'), 'utf8'));
        const data = join(root, 'volumes', id, 'data');
        assert.deepEqual(await projectOf(join(data, 'sub', 'deep')), { id: project, isInherited: true });
        assert.deepEqual(await projectOf(join(data, 'sub', 'deep', 'file')), { id: project, isInherited: false });
        assert.deepEqual(await projectOf(join(data, 'fixed')), { id: project, isInherited: false });
        assert.match(execFileSync('lsattr', [join(data, 'fixed')], { encoding: 'utf8' }), /i/);
        const usage = await pool.quotaUsage(id);
        assert.equal(usage?.bytes.total, 16n * mebibyte);
        assert.ok(usage.bytes.used >= 4n * mebibyte && usage.bytes.used < 5n * mebibyte, `${usage.bytes.used}`);
        {
          await using volume = await mounted(pool, id, scratch);
          writeAsNobody(join(volume.path, 'sub', 'fits'), 8);
          assert.throws(() => writeAsNobody(join(volume.path, 'sub', 'too much'), 8));
        }
        await pool.release(id, undefined);
        assert.deepEqual(await projectOf(path), nobody);
        assert.deepEqual(await projectOf(join(path, 'sub', 'fits')), nobody);
        assert.equal(statSync(join(path, 'sub', 'deep', 'file')).size, 4 << 20);
        await pool.purge();
        await using directory = await openReadOnly(queue, root);
        const quota = new ProjectQuota(queue, directory);
        // XFS takes an inode out of its project some time after the last name is gone.
        await eventually(async () => assert.equal(await quota.find(project), undefined));
        writeAsNobody(join(path, 'sub', 'more'), 20);
      }));

    test('files that somebody else counts are not adopted', () =>
      onStage(async (pool) => {
        execFileSync('chattr', ['-p', '77', join(path, 'sub', 'deep', 'file')]);
        await assert.rejects(pool.adopt(spec), (error: Error) => {
          assert.ok(error instanceof FailedPrecondition);
          assert.match(error.message, /belongs to quota project 77/);
          return true;
        });
        assert.equal(await pool.find(id), undefined);
        change('-p', '0');
        await pool.adopt(spec);
      }));

    test('a tree that cannot be walked to its end is not released, and what was left in the middle can be used', () =>
      onStage(async (pool, scratch) => {
        await pool.adopt(spec);
        const root = rootOf(scratch);
        const data = join(root, 'volumes', id, 'data');
        // In a directory without a project: the kernel lets files of one have names there.
        const [out, elsewhere] = [`${path}-out`, `${path}-elsewhere`];
        execFileSync('ln', [join(data, 'sub', 'deep', 'file'), elsewhere]);
        await assert.rejects(pool.release(id, out), /has another name outside/);
        execFileSync('rm', [elsewhere]);
        const note = join(root, 'handovers', `${id}.json`);
        assert.ok(!existsSync(note));
        assert.equal((await pool.condition(id)).abnormal, false);
        await pool.close();
        // As an earlier driver left it, with a mount in it that no walk passes.
        const inside = join(data, 'sub', 'inside');
        mkdirSync(inside);
        execFileSync('mount', ['-t', 'tmpfs', 'none', inside]);
        writeFileSync(note, JSON.stringify({ inode: statSync(data, { bigint: true }).ino.toString() }));
        const again = await open(scratch);
        {
          await using volume = await mounted(again, id, scratch);
          writeFileSync(join(volume.path, 'file'), 'still in use');
        }
        assert.match((await again.condition(id)).message, /its size is not enforced/);
        execFileSync('umount', [inside]);
        await again.remove(id);
        assert.equal(await again.find(id), undefined);
        await again.close();
      }));

    test('T03: a tree that a killed driver had begun to put into its project is finished', () =>
      onStage(async (pool, scratch) => {
        await pool.adopt(spec);
        await pool.close();
        const root = rootOf(scratch);
        const data = join(root, 'volumes', id, 'data');
        const before = await projectOf(join(data, 'sub'));
        {
          await using tree = await openReadOnly(queue, data);
          await writeProjectOfTree(queue, tree, 0);
        }
        const note = join(root, 'handovers', `${id}.json`);
        writeFileSync(note, JSON.stringify({ inode: statSync(data, { bigint: true }).ino.toString() }));
        const again = await open(scratch);
        assert.deepEqual(await projectOf(join(data, 'sub')), before);
        assert.ok(!existsSync(note));
        assert.ok(((await again.quotaUsage(id))?.bytes.used ?? 0n) >= 4n * mebibyte);
        await again.close();
      }));
  });
}
