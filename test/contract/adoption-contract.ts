import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import type { AdoptionSpec, Pool } from '../../src/pool/pool.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument, NotFound } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { BeforeStep } from '../support/before-step.ts';
import { Child, startNamespace } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { type PoolUnderTest, specsOf } from './pool-contract.ts';

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;
const specOf = specsOf({ type: 'directory' });

export interface AdoptingPool extends PoolUnderTest {
  /** A directory on the same mount as the pool, once that has been opened. */
  readonly beside: (scratch: Scratch) => string;
}

function adoptionOf(path: string, more: Partial<AdoptionSpec> = {}): AdoptionSpec {
  return {
    id: volumeIdFor('node', 'test', 'adopted'),
    name: 'adopted',
    accessModes: ['SINGLE_NODE_MULTI_WRITER'],
    parameters: {},
    sizeBytes: undefined,
    path,
    ...more,
  };
}

/** As a workload has left it: files, owners, links, a FIFO. */
function makeTree(path: string): void {
  mkdirSync(join(path, 'sub', 'deep'), { recursive: true });
  writeFileSync(join(path, 'sub', 'file'), Buffer.alloc(3 << 20, 7));
  linkSync(join(path, 'sub', 'file'), join(path, 'other name'));
  symlinkSync('/etc/passwd', join(path, 'link'));
  execFileSync('mkfifo', [join(path, 'fifo')]);
  execFileSync('chown', ['-R', '1234:5678', join(path, 'sub')]);
  execFileSync('chmod', ['2770', path]);
}

function checkTree(path: string): void {
  assert.deepEqual(readdirSync(path).sort(), ['fifo', 'link', 'other name', 'sub']);
  assert.deepEqual(readFileSync(join(path, 'sub', 'file')), Buffer.alloc(3 << 20, 7));
  assert.equal(readlinkSync(join(path, 'link')), '/etc/passwd');
  assert.equal(statSync(path).mode & 0o7777, 0o2770);
  assert.equal(statSync(join(path, 'sub', 'deep')).uid, 1234);
}

/** What makes volumes of what lies beside a pool, and gives it back. */
export function describeAdoption(kind: string, { beside, open }: AdoptingPool): void {
  interface Stage {
    readonly pool: Pool;
    readonly scratch: Scratch;
    /** A tree that can be adopted. */
    readonly path: string;
  }

  async function onStage(work: (stage: Stage) => Promise<void>): Promise<void> {
    using scratch = new Scratch('adoption');
    const pool = await open(scratch);
    const path = join(beside(scratch), 'legacy');
    makeTree(path);
    try {
      await work({ pool, scratch, path });
    } finally {
      await pool.close();
      rmSync(path, { recursive: true, force: true });
    }
  }

  async function refused(stage: Stage, spec: Partial<AdoptionSpec>, error: new (text: string) => Error, words: RegExp) {
    // A program of another test that just then took a mount namespace of its own is a holder, too, until it ends.
    await eventually(() =>
      assert.rejects(stage.pool.adopt(adoptionOf(stage.path, spec)), (thrown: Error) => {
        assert.ok(thrown instanceof error, `${thrown}`);
        assert.match(thrown.message, words);
        return true;
      }),
    );
    assert.deepEqual(await stage.pool.list(undefined, undefined), []);
  }

  describe(`${kind}: adoption`, () => {
    test('a directory becomes a volume as it is, by its inode, and a directory again', () =>
      onStage(async ({ path, pool, scratch }) => {
        const { inode } = { inode: statSync(path).ino };
        const record = await pool.adopt(adoptionOf(path));
        assert.deepEqual(
          [record.sizeBytes, record.content, record.adopted],
          [gibibyte, { type: 'directory' }, { path }],
        );
        assert.ok(!existsSync(path));
        assert.deepEqual(await pool.find(record.id), record);
        {
          await using volume = await mounted(pool, record.id, scratch);
          assert.equal(statSync(volume.path).ino, inode);
          checkTree(volume.path);
          writeFileSync(join(volume.path, 'sub', 'new'), 'written by the volume');
          await assert.rejects(pool.release(record.id, undefined), FailedPrecondition);
        }
        // A program of another test that just then took a mount namespace of its own is a holder, too, until it ends.
        await eventually(async () => assert.equal(await pool.release(record.id, undefined), path));
        assert.equal(statSync(path).ino, inode);
        assert.equal(readFileSync(join(path, 'sub', 'new'), 'utf8'), 'written by the volume');
        checkTree(path);
        assert.equal(await pool.find(record.id), undefined);
        await pool.purge();
        assert.equal((await pool.capacity()).provisionedBytes, 0n);
      }));

    test('T03: what was adopted is there after a restart, grows, and is deleted as any other', () =>
      onStage(async ({ path, pool, scratch }) => {
        const { id } = await pool.adopt(adoptionOf(path, { sizeBytes: 64n * mebibyte }));
        await pool.close();
        const again = await open(scratch);
        assert.equal((await again.find(id))?.sizeBytes, 64n * mebibyte);
        assert.equal((await again.grow(id, 96n * mebibyte)).sizeBytes, 96n * mebibyte);
        assert.deepEqual((await again.find(id))?.adopted, { path });
        await again.remove(id);
        await again.purge();
        assert.ok(!existsSync(path));
        await again.close();
      }));

    test('what is adopted counts as provisioned by its size; a size below what it takes is refused', () =>
      onStage(async (stage) => {
        const { pool } = stage;
        await refused(stage, { sizeBytes: mebibyte }, InvalidArgument, /takes 3(\.\d)?Mi, more than the requested 1Mi/);
        const before = await pool.capacity();
        await pool.adopt(adoptionOf(stage.path, { sizeBytes: 64n * mebibyte }));
        const after = await pool.capacity();
        assert.equal(after.provisionedBytes - before.provisionedBytes, 64n * mebibyte);
      }));

    test('only a directory by its own name is adopted', () =>
      onStage(async (stage) => {
        const { path } = stage;
        const [link, file, parentLink] = [`${path}-link`, `${path}-file`, `${path}-parent`];
        symlinkSync(path, link);
        symlinkSync(dirname(path), parentLink);
        writeFileSync(file, '');
        try {
          await refused(stage, { path: link }, FailedPrecondition, /symbolic link|no directory/);
          await refused(stage, { path: join(parentLink, 'legacy') }, FailedPrecondition, /symbolic link/);
          await refused(stage, { path: file }, FailedPrecondition, /no directory/);
          await refused(stage, { path: `${path}-none` }, NotFound, /There is no/);
          await refused(stage, { path: `${path}-none/x` }, NotFound, /There is no/);
          await refused(stage, { path: 'legacy' }, InvalidArgument, /no absolute path/);
          await refused(stage, { path: `${path}/${'x'.repeat(300)}` }, InvalidArgument, /as long as/);
          await refused(stage, { path: `/${'x/'.repeat(3000)}x` }, InvalidArgument, /as long as/);
          await refused(stage, { path: '/' }, InvalidArgument, /no absolute path/);
          await refused(stage, { path: `${path}/../legacy` }, InvalidArgument, /no absolute path/);
        } finally {
          for (const each of [link, file, parentLink]) unlinkSync(each);
        }
        checkTree(path);
      }));

    test("a pool's own directories are not adopted, nor what a pool lies in", () =>
      onStage(async (stage) => {
        const { path, pool } = stage;
        const { id } = await pool.create(specOf('one'));
        const attachment = await pool.attach(id, { persistent: false });
        assert.equal(attachment.kind, 'directory');
        await attachment.release();
        const root = join(attachment.path, '..', '..', '..');
        mkdirSync(join(attachment.path, 'sub'));
        for (const inside of [
          '',
          'volumes',
          'trash',
          join('volumes', id, 'data'),
          join('volumes', id, 'data', 'sub'),
        ]) {
          const attempt = pool.adopt(adoptionOf(join(root, inside).replace(/\/$/, '')));
          await assert.rejects(attempt, /directory of a pool/, inside);
        }
        // It may be where the filesystem is mounted.
        await assert.rejects(pool.adopt(adoptionOf(dirname(path))), /lies in|mounted|not on the filesystem/);
        await pool.remove(id);
      }));

    test('what is on another filesystem, or seen through another mount, is not adopted', () =>
      onStage(async (stage) => {
        const { path, scratch } = stage;
        const [elsewhere, again] = [scratch.join('tmpfs'), scratch.join('again')];
        for (const each of [elsewhere, again]) mkdirSync(each);
        execFileSync('mount', ['-t', 'tmpfs', 'test', elsewhere]);
        execFileSync('mount', ['--bind', dirname(path), again]);
        mkdirSync(join(elsewhere, 'data'));
        try {
          await refused(stage, { path: join(elsewhere, 'data') }, FailedPrecondition, /not on the filesystem of pool/);
          await refused(stage, { path: join(again, 'legacy') }, FailedPrecondition, /two mounts of one filesystem/);
          await refused(stage, { path: again }, FailedPrecondition, /mounted|lies in|filesystem/);
        } finally {
          execFileSync('umount', [again]);
          execFileSync('umount', [elsewhere]);
        }
        checkTree(path);
      }));

    test('what is in use is not adopted: by mounts here and in other namespaces, by processes', () =>
      onStage(async (stage) => {
        const { path, scratch } = stage;
        const target = scratch.join('target');
        mkdirSync(target);
        const bind = (from: string) => execFileSync('mount', ['--bind', from, target]);
        bind(path);
        await refused(stage, {}, FailedPrecondition, /in use by the mount at/);
        execFileSync('umount', [target]);
        bind(join(path, 'sub'));
        await refused(stage, {}, FailedPrecondition, /in use by the mount at/);
        {
          await using _container = await startNamespace(target);
          execFileSync('umount', [target]);
          await refused(stage, {}, FailedPrecondition, /in use by .*process \d+ \(sleep\)/);
        }
        {
          await using _shell = await Child.start(['sleep', '600'], { cwd: join(path, 'sub') });
          await refused(stage, {}, FailedPrecondition, /in use by process \d+ \(sleep\)/);
        }
        execFileSync('mount', ['-t', 'tmpfs', 'test', join(path, 'sub', 'deep')]);
        await refused(stage, {}, FailedPrecondition, /mounted/);
        execFileSync('umount', [join(path, 'sub', 'deep')]);
        execFileSync('mount', ['-t', 'tmpfs', 'test', path]);
        await refused(stage, {}, FailedPrecondition, /mounted/);
        execFileSync('umount', [path]);
        checkTree(path);
      }));

    test('a file with a name elsewhere is not adopted: it would be of two', () =>
      onStage(async (stage) => {
        const outside = `${stage.path}-outside`;
        linkSync(join(stage.path, 'sub', 'file'), outside);
        await refused(stage, {}, FailedPrecondition, /another name outside/);
        unlinkSync(outside);
        checkTree(stage.path);
      }));

    for (const [what, put] of Object.entries({
      'a symbolic link': (path: string) => symlinkSync('/etc', path),
      'another directory': (path: string) => mkdirSync(path),
      nothing: () => undefined,
    })) {
      test(`${what}, put in its place while it is adopted, stays where it is`, () =>
        onStage(async (stage) => {
          const { path } = stage;
          const aside = `${path}-aside`;
          {
            using _swap = new BeforeStep('adopt/move', () => {
              renameSync(path, aside);
              put(path);
            });
            await assert.rejects(stage.pool.adopt(adoptionOf(path)));
          }
          assert.deepEqual(await stage.pool.list(undefined, undefined), []);
          checkTree(aside);
          const there = lstatSync(path, { throwIfNoEntry: false });
          if (there?.isSymbolicLink() === true) assert.equal(readlinkSync(path), '/etc');
          assert.equal(there === undefined, what === 'nothing');
          rmSync(path, { recursive: true, force: true });
          renameSync(aside, path);
          await stage.pool.adopt(adoptionOf(path));
        }));
    }

    test('release: to where nothing is, and nowhere else', () =>
      onStage(async ({ path, pool, scratch }) => {
        const { id } = await pool.adopt(adoptionOf(path));
        const refusal = async (to: string | undefined, error: new (text: string) => Error) => {
          await assert.rejects(pool.release(id, to), error);
          assert.ok((await pool.find(id)) !== undefined);
        };
        mkdirSync(path);
        await refusal(undefined, AlreadyExists);
        rmSync(path, { recursive: true });
        symlinkSync('/etc', path);
        await refusal(undefined, AlreadyExists);
        unlinkSync(path);
        await refusal(`${path}/none/x`, NotFound);
        await refusal('relative', InvalidArgument);
        const attachment = await pool.attach(id, { persistent: false });
        assert.equal(attachment.kind, 'directory');
        await attachment.release();
        await refusal(join(attachment.path, '..', 'x'), FailedPrecondition);
        {
          await using volume = await mounted(pool, id, scratch);
          checkTree(volume.path);
        }
        await eventually(async () => assert.equal(await pool.release(id, `${path}-new`), `${path}-new`));
        checkTree(`${path}-new`);
        await assert.rejects(pool.release(id, undefined), NotFound);
        rmSync(`${path}-new`, { recursive: true });
      }));

    test('any volume can be released, if it is said where to', () =>
      onStage(async ({ path, pool }) => {
        const { id } = await pool.create(specOf('made here'));
        await assert.rejects(pool.release(id, undefined), InvalidArgument);
        await pool.release(id, `${path}-made`);
        assert.deepEqual(readdirSync(`${path}-made`), []);
        rmSync(`${path}-made`, { recursive: true });
      }));

    test('a name that is taken is not adopted under', () =>
      onStage(async ({ path, pool }) => {
        const spec = adoptionOf(path);
        await pool.create(specOf('adopted', { id: spec.id }));
        await assert.rejects(pool.adopt(spec), AlreadyExists);
        checkTree(path);
      }));

    test('DV06: a volume that only another mount namespace has mounted is in use', () =>
      onStage(async ({ path, pool, scratch }) => {
        const { id } = await pool.adopt(adoptionOf(path));
        const volume = await mounted(pool, id, scratch);
        const container = await startNamespace(volume.path);
        await volume[Symbol.asyncDispose]();
        assert.deepEqual(await pool.attached(id), []);
        assert.equal((await pool.inUse(id)).length, 1);
        const inUse = (error: Error) =>
          error instanceof FailedPrecondition && /in use .*process \d+ \(sleep\)/.test(error.message);
        await eventually(() => assert.rejects(pool.remove(id), inUse));
        await eventually(() => assert.rejects(pool.release(id, undefined), inUse));
        if (pool.traits.snapshots === 'copy') {
          await assert.rejects(pool.create(specOf('copy'), { type: 'volume', id }), /is in use/);
        }
        await container[Symbol.asyncDispose]();
        await eventually(async () => void (await pool.release(id, undefined)));
        checkTree(path);
      }));
  });
}
