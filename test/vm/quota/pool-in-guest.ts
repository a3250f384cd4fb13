/**
 * Runs in the virtual machine: the contract of directory pools on filesystems that enforce project quota, and what such a
 * pool promises beyond it.
 * node pool-in-guest.ts DIRECTORY…
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { readProject, writeProject } from '../../../src/kernel/file/project-id.ts';
import { ProjectQuota } from '../../../src/kernel/file/project-quota.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { snapshotIdFor, type VolumeId } from '../../../src/volume/id.ts';
import { describeDirectories } from '../../contract/directory-contract.ts';
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describePool, specsOf } from '../../contract/pool-contract.ts';
import { describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { type DirectoryTestOptions, openTestDirectories } from '../../support/directory-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { mounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { describeAdoptedQuota } from './adopted-quota.ts';
import { describeMovedQuota } from './moved-quota.ts';

const [, , ...mountPoints] = process.argv;
const mebibyte = 1n << 20n;
const content = { type: 'directory' } as const;
const specOf = specsOf(content);
const queue = new DiskQueue('test', 4);

for (const mountPoint of mountPoints) {
  const kind = `directory pool with quota, ${mountPoint}`;
  const pathFor = (scratch: Scratch) => join(mountPoint, basename(scratch.path));
  const open = (scratch: Scratch, options: DirectoryTestOptions = {}) =>
    openTestDirectories(scratch, { path: pathFor(scratch), quota: 'required', ...options });
  const poolUnderTest: PoolWithOptions = { content, open };
  describePool(kind, poolUnderTest);
  describeDirectories(kind, poolUnderTest);
  describeTrash(kind, poolUnderTest);
  describeEphemeral(kind, poolUnderTest);
  if (mountPoint === '/xfs') {
    describeSnapshots(kind, poolUnderTest);
    describeFullCopies(kind, open);
  }
  describeQuota(kind, mountPoint, open);
  describeAdoptedQuota(kind, { mountPoint, rootOf: pathFor, open, writeAsNobody });
}

describeMovedQuota({
  places: mountPoints,
  pathIn: (place, scratch) => join(place, basename(scratch.path)),
  open: (scratch, options) => openTestDirectories(scratch, { quota: 'required', ...options }),
});

/** As nobody: CAP_SYS_RESOURCE lets root pass the limits of ext4. */
function writeAsNobody(path: string, mebibytes: number): void {
  const identity = ['--reuid', '65534', '--regid', '65534', '--clear-groups'];
  execFileSync('setpriv', [...identity, 'dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${mebibytes}`], {
    stdio: 'ignore',
  });
}

function projectOf(root: string, id: VolumeId): number {
  return Number(readFileSync(join(root, 'volumes', id, 'project'), 'utf8'));
}

function describeQuota(
  kind: string,
  mountPoint: string,
  open: (scratch: Scratch, options?: DirectoryTestOptions) => Promise<Catalog>,
): void {
  const rootOf = (pool: Catalog, id: VolumeId) =>
    pool.attach(id, { persistent: false }).then(async (attachment) => {
      await attachment.release();
      assert.equal(attachment.kind, 'directory');
      return join(attachment.path, '..', '..', '..');
    });

  describe(`${kind}: quota`, () => {
    test('a volume takes no more than its size, and more once it has grown; statistics and df tell so', async () => {
      using scratch = new Scratch('quota');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('small', { sizeBytes: 16n * mebibyte }));
      // Nobody gets through otherwise.
      chmodSync(scratch.path, 0o711);
      {
        await using volume = await mounted(pool, id, scratch);
        writeAsNobody(join(volume.path, 'fits'), 15);
        assert.throws(() => writeAsNobody(join(volume.path, 'too much'), 8));
        const usage = await pool.quotaUsage(id);
        assert.equal(usage?.bytes.total, 16n * mebibyte);
        assert.ok(usage.bytes.used >= 15n * mebibyte && usage.bytes.used <= 16n * mebibyte);
        assert.ok(usage.bytes.available <= mebibyte);
        const { bsize, blocks } = statfsSync(volume.path, { bigint: true });
        assert.equal(bsize * blocks, 16n * mebibyte);
        await pool.grow(id, 32n * mebibyte);
        writeAsNobody(join(volume.path, 'too much'), 8);
      }
      assert.ok((await pool.capacity()).usedBytes >= 23n * mebibyte);
      await pool.remove(id);
      await pool.close();
    });

    test('what is gone has no project and no limit; what two pools or somebody else have is never used', async () => {
      using scratch = new Scratch('quota');
      const pool = await open(scratch);
      const [first, second] = [await pool.create(specOf('a')), await pool.create(specOf('b'))];
      const root = await rootOf(pool, first.id);
      const [project, next] = [projectOf(root, first.id), projectOf(root, second.id)];
      assert.equal(next, project + 1);
      await using directory = await openReadOnly(queue, root);
      const quota = new ProjectQuota(queue, directory);
      assert.deepEqual((await quota.find(project))?.limits, { bytes: first.sizeBytes, inodes: 0n });
      // Somebody else has the next one.
      await quota.limit(next + 1, { bytes: mebibyte, inodes: 0n });
      const third = await pool.create(specOf('c'));
      assert.equal(projectOf(root, third.id), next + 2);
      await quota.limit(next + 1, { bytes: 0n, inodes: 0n });
      await pool.remove(first.id);
      await pool.purge();
      // XFS takes an inode out of its project some time after the last name is gone.
      await eventually(async () => assert.equal(await quota.find(project), undefined));
      await pool.close();
    });

    test('T03: what a killed driver began to grow is finished; a limit that was lost is set again', async () => {
      using scratch = new Scratch('quota');
      const pool = await open(scratch);
      const { id, sizeBytes } = await pool.create(specOf('a'));
      const root = await rootOf(pool, id);
      const project = projectOf(root, id);
      await pool.close();
      await using directory = await openReadOnly(queue, root);
      const quota = new ProjectQuota(queue, directory);
      await quota.limit(project, { bytes: sizeBytes * 2n, inodes: 0n });
      const again = await open(scratch);
      assert.equal((await again.find(id))?.sizeBytes, sizeBytes * 2n);
      await quota.limit(project, { bytes: 0n, inodes: 0n });
      await (await again.attach(id, { persistent: false })).release();
      assert.equal((await quota.find(project))?.limits.bytes, sizeBytes * 2n);
      await again.close();
    });

    test('a volume whose owner has changed its project is abnormal', async () => {
      using scratch = new Scratch('quota');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('a'));
      const root = await rootOf(pool, id);
      await using data = await openReadOnly(queue, join(root, 'volumes', id, 'data'));
      assert.deepEqual(await readProject(queue, data), { id: projectOf(root, id), isInherited: true });
      assert.equal((await pool.condition(id)).abnormal, false);
      await writeProject(queue, data, { id: 0, isInherited: false });
      assert.deepEqual(await pool.condition(id), {
        abnormal: true,
        message: 'Its directory was put into another quota project: its size is not enforced.',
      });
      await pool.close();
    });

    test("DV05: what is deeper than is open at a time is removed, also where the pool lies in somebody else's project", async () => {
      using scratch = new Scratch('quota');
      const outer = join(mountPoint, basename(scratch.path));
      mkdirSync(outer);
      await using directory = await openReadOnly(queue, outer);
      await writeProject(queue, directory, { id: 4242, isInherited: true });
      const pool = await open(scratch, { path: join(outer, 'pool') });
      const { id } = await pool.create(specOf('deep'));
      const root = await rootOf(pool, id);
      mkdirSync(join(root, 'volumes', id, 'data', ...Array<string>(100).fill('d')), { recursive: true });
      await pool.remove(id);
      await pool.purge();
      assert.deepEqual(readdirSync(join(root, 'trash')), []);
      await pool.close();
    });

    test('without quota a pool that requires it is refused, and one that does not is opened', async () => {
      using scratch = new Scratch('quota');
      const path = `/tmp/${basename(scratch.path)}`;
      mkdirSync(path);
      await assert.rejects(open(scratch, { path }), /enforces no project quota/);
      const pool = await open(scratch, { path, quota: 'whenAvailable' });
      const { id } = await pool.create(specOf('a'));
      assert.equal(await pool.quotaUsage(id), undefined);
      await pool.close();
    });
  });
}

function describeFullCopies(
  kind: string,
  open: (scratch: Scratch, options?: DirectoryTestOptions) => Promise<Catalog>,
): void {
  test(`${kind}: a volume that is full is cloned and snapshotted, and its copies have their limits`, async () => {
    using scratch = new Scratch('quota');
    const pool = await open(scratch);
    const { id, sizeBytes } = await pool.create(specOf('full', { sizeBytes: 16n * mebibyte }));
    {
      await using volume = await mounted(pool, id, scratch);
      for (let index = 0; index < 300; index++) writeFileSync(join(volume.path, `${index}`), 'small');
      assert.throws(() =>
        execFileSync('dd', ['if=/dev/zero', `of=${join(volume.path, 'large')}`], { stdio: 'ignore' }),
      );
    }
    const [snapshot] = await pool.takeSnapshots([
      { id: snapshotIdFor('node', 'full'), name: 'full', sourceId: id, parameters: {} },
    ]);
    assert.ok(snapshot);
    const clone = await pool.create(specOf('clone', { sizeBytes }), { type: 'volume', id });
    const restored = await pool.create(specOf('restored', { sizeBytes: sizeBytes * 2n }), {
      type: 'snapshot',
      id: snapshot.id,
    });
    assert.equal((await pool.quotaUsage(clone.id))?.bytes.total, sizeBytes);
    assert.equal((await pool.quotaUsage(restored.id))?.bytes.total, sizeBytes * 2n);
    await pool.close();
  });
}
