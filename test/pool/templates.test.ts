import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { delimiter } from 'node:path';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { InvalidArgument, ResourceExhausted } from '../../src/volume/errors.ts';
import { type FilesystemType, filesystemTypes } from '../../src/volume/filesystem.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { BeforeStep } from '../support/before-step.ts';
import { uuidOf } from '../support/disk.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;
const size = 320n * mebibyte;

/** XFS in a file, where files share blocks. */
function sharing(scratch: Scratch, mebibytes = 8192n, options: { readonly undeleteSeconds?: number } = {}) {
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: mebibytes * mebibyte } as const;
  return openTestPool(scratch, { location, ...options });
}

/** A directory of an ext4, where they cannot. */
function copying(scratch: Scratch, mebibytes = 4096n) {
  const disk = scratch.join('disk');
  mkdirSync(disk);
  execFileSync('truncate', [`--size=${mebibytes}M`, `${disk}.img`]);
  execFileSync('mkfs.ext4', ['-q', `${disk}.img`]);
  execFileSync('mount', ['-o', 'loop', `${disk}.img`, disk]);
  return openTestPool(scratch, { location: { type: 'directory', path: `${disk}/pool` } });
}

/** Fails if a mkfs is started meanwhile: the same programs are there, but none is found. */
async function withoutMkfs<T>(scratch: Scratch, work: () => Promise<T>): Promise<T> {
  const { PATH } = process.env;
  process.env['PATH'] = scratch.path;
  try {
    return await work();
  } finally {
    process.env['PATH'] = PATH;
  }
}

const rootOf = (scratch: Scratch) => scratch.join('data', 'pools', 'test');
const imageOf = (scratch: Scratch, id: VolumeId) => `${rootOf(scratch)}/volumes/${id}/data`;

function templates(scratch: Scratch): string[] {
  const directory = `${rootOf(scratch)}/templates`;
  return existsSync(directory) ? readdirSync(directory).map((name) => `${directory}/${name}`) : [];
}

function spec(name: string, fsType: FilesystemType, changes: Parameters<typeof volumeSpec>[1] = {}) {
  return volumeSpec(name, { content: { type: 'mount', fsType }, sizeBytes: size, ...changes });
}

function check(fsType: FilesystemType, path: string): void {
  const commands = {
    ext4: ['e2fsck', '-fn'],
    xfs: ['xfs_repair', '-n', '-f'],
    btrfs: ['btrfs', 'check', '--readonly'],
  } as const;
  const [program, ...args] = commands[fsType];
  execFileSync(program, [...args, path], { stdio: 'pipe' });
}

/** Whether the image shares blocks with another file. */
function isShared(path: string): boolean {
  return /shared/.test(execFileSync('filefrag', ['-v', path], { encoding: 'utf8' }));
}

/** Overwrites the whole device, past the cache: a write that finds no room fails. */
async function fill(pool: Pool, id: VolumeId, mebibytes: bigint): Promise<void> {
  const attached = await attachDevice(pool, id, { persistent: true });
  const { devicePath, release } = attached;
  await release();
  const what = [
    'if=/dev/urandom',
    `of=${devicePath}`,
    'bs=1M',
    `count=${mebibytes}`,
    'oflag=direct',
    'iflag=fullblock',
  ];
  execFileSync('dd', what, { stdio: 'pipe' });
  await pool.detach(attached);
}

describe('templates', () => {
  for (const fsType of filesystemTypes) {
    test(`${fsType}: sixteen callers at once make one; each volume is sound, has a UUID of its own and shares blocks`, async () => {
      using scratch = new Scratch('templates');
      const pool = await sharing(scratch);
      const names = Array.from({ length: 16 }, (_, index) => `v${index}`);
      const made = await Promise.all(names.map((name) => pool.create(spec(name, fsType))));
      const [template = '', ...others] = templates(scratch);
      assert.deepEqual(others, []);
      const paths = made.map(({ id }) => imageOf(scratch, id));
      assert.equal(new Set([template, ...paths].map(uuidOf)).size, 17);
      for (const path of [template, ...paths]) check(fsType, path);
      assert.ok(paths.every(isShared));
      for (const { id } of made.slice(0, 2)) {
        await withMounted(pool, id, scratch, (path) => assert.deepEqual(readdirSync(path).filter(isForeign), []));
        check(fsType, imageOf(scratch, id));
      }
      check(fsType, template);
      assert.deepEqual(readdirSync(`${rootOf(scratch)}/tmp`), []);
      await pool.close();
    });
  }

  test('there is one for each size and set of options; what is made with options has them', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    await pool.create(spec('a', 'ext4'));
    await pool.create(spec('b', 'ext4', { sizeBytes: 2n * size }));
    const mkfsArguments = ['-O', 'metadata_csum_seed', '-I', '512'];
    for (const name of ['c', 'd']) {
      const { id } = await pool.create(spec(name, 'ext4', { mkfsArguments }));
      assert.match(execFileSync('dumpe2fs', ['-h', imageOf(scratch, id)], { encoding: 'utf8' }), /Inode size:\s+512/);
    }
    assert.equal(templates(scratch).length, 3);
    await pool.close();
  });

  test('CV10: options that make nothing that can be mounted are refused as before, and leave nothing', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    for (const mkfsArguments of [
      ['-b', '65536'],
      ['-I', '3'],
    ]) {
      await assert.rejects(pool.create(spec('bad', 'ext4', { mkfsArguments })), InvalidArgument);
    }
    assert.deepEqual(templates(scratch), []);
    await eventually(() => assert.deepEqual(readdirSync(`${rootOf(scratch)}/tmp`), []));
    await pool.close();
  });

  test('one with a superblock in each of very many groups is formatted each time', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    const mkfsArguments = ['-O', '^sparse_super,^resize_inode', '-g', '1024'];
    const { id } = await pool.create(spec('many', 'ext4', { mkfsArguments }));
    check('ext4', imageOf(scratch, id));
    assert.deepEqual(templates(scratch), []);
    await pool.close();
  });

  test('a thick volume shares nothing, and has all its blocks; no mkfs runs for it', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    for (const fsType of filesystemTypes) {
      await pool.create(spec(`thin ${fsType}`, fsType));
      const { id } = await withoutMkfs(scratch, () => pool.create(spec(fsType, fsType, { provisioning: 'thick' })));
      const path = imageOf(scratch, id);
      assert.equal(isShared(path), false);
      assert.ok(BigInt(statSync(path).blocks) * 512n >= size);
      check(fsType, path);
      await withMounted(pool, id, scratch, (mounted) => assert.deepEqual(readdirSync(mounted).filter(isForeign), []));
    }
    await pool.close();
  });

  for (const fsType of filesystemTypes) {
    test(`${fsType}: where files cannot share blocks, each volume is a sound copy with a UUID of its own, and takes what mkfs would`, async () => {
      using scratch = new Scratch('templates');
      const pool = await copying(scratch);
      const first = await pool.create(spec('first', fsType));
      const imageOfCopy = (id: VolumeId) => `${scratch.join('disk')}/pool/volumes/${id}/data`;
      const names = Array.from({ length: 8 }, (_, index) => `v${index}`);
      const provisioning = (index: number) => (index % 2 === 0 ? 'thin' : 'thick');
      const made = await withoutMkfs(scratch, () =>
        Promise.all(names.map((name, index) => pool.create(spec(name, fsType, { provisioning: provisioning(index) })))),
      );
      const [template = '', ...others] = readdirSync(`${scratch.join('disk')}/pool/templates`);
      assert.deepEqual(others, []);
      const images = [first, ...made].map(({ id }) => imageOfCopy(id));
      assert.equal(new Set([`${scratch.join('disk')}/pool/templates/${template}`, ...images].map(uuidOf)).size, 10);
      for (const path of images) check(fsType, path);
      const taken = made.map(({ id }) => BigInt(statSync(imageOfCopy(id)).blocks) * 512n);
      for (const [index, bytes] of taken.entries())
        assert.ok(index % 2 === 0 ? bytes < 8n * mebibyte : bytes >= size, `${bytes}`);
      for (const { id } of made.slice(0, 2)) {
        await withMounted(pool, id, scratch, (path) => assert.deepEqual(readdirSync(path).filter(isForeign), []));
        check(fsType, imageOfCopy(id));
      }
      await pool.close();
    });
  }

  test('one that was cut off by hand makes no volume: it is made anew', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    await pool.create(spec('a', 'ext4'));
    truncateSync(templates(scratch)[0] ?? '', 4096);
    for (const name of ['b', 'c']) {
      const { id } = await pool.create(spec(name, 'ext4'));
      assert.equal(BigInt(statSync(imageOf(scratch, id)).size), size);
      check('ext4', imageOf(scratch, id));
    }
    await pool.close();
  });

  test('a volume whose device has small blocks shares nothing: over shared ones the device would do no direct I/O', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    const small = { ext4: ['-b', '1024'], xfs: ['-b', 'size=1024'] };
    for (const fsType of ['ext4', 'xfs'] as const) {
      const { blockSizeBytes, id } = await pool.create(spec(fsType, fsType, { mkfsArguments: small[fsType] }));
      assert.equal(blockSizeBytes, 512);
      assert.equal(isShared(imageOf(scratch, id)), false);
      const { device, release } = await attachDevice(pool, id, { persistent: false });
      assert.equal(readFileSync(`/sys/dev/block/7:${device.minor}/loop/dio`, 'utf8').trim(), '1');
      await release();
      check(fsType, imageOf(scratch, id));
    }
    assert.equal(templates(scratch).length, 2);
    await pool.close();
  });

  test('a raw block volume needs none', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    await pool.create(volumeSpec('raw', { content: { type: 'block' } }));
    assert.deepEqual(templates(scratch), []);
    await pool.close();
  });

  test('the next driver goes on with them, and makes anew what is damaged', async () => {
    using scratch = new Scratch('templates');
    const first = await sharing(scratch);
    await first.create(spec('a', 'ext4'));
    const [path = ''] = templates(scratch);
    const { birthtimeMs } = statSync(path);
    await first.close();
    const second = await sharing(scratch);
    await second.create(spec('b', 'ext4'));
    assert.equal(statSync(path).birthtimeMs, birthtimeMs);
    await second.close();
    const third = await sharing(scratch);
    const file = openSync(path, 'r+');
    // The root directory's inode lies in the first table.
    for (let offset = 4096; offset < 1 << 20; offset += 4096) writeSync(file, Buffer.alloc(4096, 7), 0, 4096, offset);
    closeSync(file);
    const { id } = await third.create(spec('c', 'ext4'));
    assert.notEqual(statSync(path).birthtimeMs, birthtimeMs);
    check('ext4', imageOf(scratch, id));
    await third.close();
  });

  test('one that was removed by hand is not missed, and made anew', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    await pool.create(spec('a', 'xfs'));
    rmSync(`${rootOf(scratch)}/templates`, { recursive: true });
    for (const name of ['b', 'c']) check('xfs', imageOf(scratch, (await pool.create(spec(name, 'xfs'))).id));
    assert.equal(templates(scratch).length, 1);
    await pool.close();
  });

  test('one that cannot be cloned any more, as new files of its btrfs have no checksums, costs no volume, and is made anew', async () => {
    using scratch = new Scratch('templates');
    const disk = scratch.join('disk');
    mkdirSync(disk);
    execFileSync('truncate', ['--size=4G', `${disk}.img`]);
    execFileSync('mkfs.btrfs', ['-q', `${disk}.img`]);
    execFileSync('mount', ['-o', 'loop', `${disk}.img`, disk]);
    const pool = await openTestPool(scratch, { location: { type: 'directory', path: `${disk}/pool` } });
    await pool.create(spec('a', 'ext4'));
    execFileSync('chattr', ['+C', `${disk}/pool/tmp`]);
    for (const [name, hasTemplate] of Object.entries({ b: false, c: true })) {
      const { id } = await pool.create(spec(name, 'ext4'));
      check('ext4', `${disk}/pool/volumes/${id}/data`);
      assert.equal(isShared(`${disk}/pool/volumes/${id}/data`), hasTemplate);
    }
    await pool.close();
  });

  test('what another mkfs has made goes', async () => {
    using scratch = new Scratch('templates');
    const first = await sharing(scratch);
    await first.create(spec('a', 'ext4'));
    await first.create(spec('b', 'xfs'));
    const before = templates(scratch);
    await first.close();
    const { PATH = '' } = process.env;
    const bin = scratch.join('bin');
    mkdirSync(bin);
    execFileSync('sh', ['-c', `cp "$(command -v mkfs.ext4)" ${bin}/mkfs.ext4`]);
    process.env['PATH'] = `${bin}${delimiter}${PATH}`;
    try {
      const second = await sharing(scratch);
      await second.create(spec('c', 'ext4'));
      const after = templates(scratch);
      assert.equal(after.length, 2);
      assert.equal(after.filter((path) => before.includes(path)).length, 1);
      await second.close();
    } finally {
      process.env['PATH'] = PATH;
    }
  });

  test('core 11c: sixteen are kept; another size gets one, and one gives way, when it is asked for more often', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch, 16_384n);
    const sizeOf = (index: number) => (64n + BigInt(index)) * mebibyte;
    const templateOf = (index: number) => templates(scratch).filter((path) => path.includes(`-${sizeOf(index)}-`));
    for (let index = 0; index < 16; index++) await pool.create(spec(`v${index}`, 'ext4', { sizeBytes: sizeOf(index) }));
    await pool.create(spec('again', 'ext4', { sizeBytes: sizeOf(0) }));
    const before = templates(scratch);
    for (let index = 16; index < 20; index++) {
      const { id } = await pool.create(spec(`once ${index}`, 'ext4', { sizeBytes: sizeOf(index) }));
      check('ext4', imageOf(scratch, id));
    }
    for (let index = 16; index < 18; index++) {
      const { id } = await pool.create(spec(`twice ${index}`, 'ext4', { sizeBytes: sizeOf(index) }));
      assert.equal(isShared(imageOf(scratch, id)), false);
    }
    assert.deepEqual(templates(scratch).toSorted(), before.toSorted());
    const { id } = await pool.create(spec('a third time', 'ext4', { sizeBytes: sizeOf(16) }));
    assert.ok(isShared(imageOf(scratch, id)));
    assert.equal(templates(scratch).length, 16);
    assert.equal(templateOf(16).length, 1);
    assert.equal(templateOf(0).length, 1, 'asked for twice');
    assert.equal(templateOf(1).length, 0, 'asked for once, the longest ago');
    await pool.close();
  });
});

describe('the space of templates', () => {
  test('GC04: all that was promised can be written, although new volumes share blocks', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch, 1024n);
    const ids: VolumeId[] = [];
    for (;;) {
      const name = `v${ids.length}`;
      const made = await pool
        .create(spec(name, 'ext4', { sizeBytes: 48n * mebibyte }))
        .catch((error: unknown) => error);
      if (made instanceof ResourceExhausted) break;
      assert.ok(!(made instanceof Error), `${made}`);
      ids.push((made as { id: VolumeId }).id);
    }
    assert.ok(ids.length > 15, `${ids.length}`);
    for (const id of ids) await fill(pool, id, 48n);
    await pool.close();
  });

  test('GC04: a new volume owns nothing of what it shares', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch);
    const { availableBytes } = await pool.capacity();
    for (let index = 0; index < 8; index++) await pool.create(spec(`v${index}`, 'btrfs'));
    const promised = availableBytes - (await pool.capacity()).availableBytes;
    const template = BigInt(statSync(templates(scratch)[0] ?? '').blocks) * 512n;
    assert.ok(promised >= 8n * size + template - mebibyte, `${promised}`);
    await pool.close();
  });

  test('GC04: where files cannot share blocks, a volume owns what was copied, and what a template takes is used', async () => {
    using scratch = new Scratch('templates');
    const pool = await copying(scratch);
    const before = await pool.capacity();
    for (let index = 0; index < 4; index++) await pool.create(spec(`v${index}`, 'ext4'));
    const after = await pool.capacity();
    const promised = before.availableBytes - after.availableBytes;
    assert.ok(promised >= 4n * size && promised < 4n * size + 4n * mebibyte, `${promised}`);
    await pool.close();
  });

  test('GC04: a volume of a template takes no more of XFS than that; a template that goes gives it back', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch, 1024n);
    const free = () => {
      const { bfree, bsize } = statfsSync(rootOf(scratch));
      return bfree * bsize;
    };
    const { id } = await pool.create(spec('a', 'btrfs'));
    const [template = ''] = templates(scratch);
    const { blocks } = statSync(template);
    assert.ok(statSync(imageOf(scratch, id)).blocks <= blocks);
    await pool.remove(id);
    await pool.capacity();
    const before = free();
    // It would need the template's room, and some that is not there.
    const sizeBytes = 2048n * mebibyte;
    await assert.rejects(
      pool.create(volumeSpec('large', { content: { type: 'block' }, sizeBytes })),
      ResourceExhausted,
    );
    assert.deepEqual(templates(scratch), []);
    assert.ok(free() - before >= blocks * 512, `${free() - before} of ${blocks * 512} bytes`);
    await pool.close();
  });

  test('they go when their space is needed, before anything in the trash does', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch, 1024n, { undeleteSeconds: 3600 });
    const spent = await pool.create(spec('spent', 'btrfs'));
    await pool.remove(spent.id);
    await pool.purge();
    const { id } = await pool.create(volumeSpec('deleted', { content: { type: 'block' }, provisioning: 'thick' }));
    await pool.remove(id);
    assert.equal(templates(scratch).length, 1);
    const { availableBytes } = await pool.capacity();
    // Without what is in the trash, and a little more.
    const sizeBytes = ((availableBytes - 62n * mebibyte) / 4096n) * 4096n;
    await pool.create(volumeSpec('all', { content: { type: 'block' }, sizeBytes }));
    assert.deepEqual(templates(scratch), []);
    assert.equal((await pool.trash()).length, 1);
    // Nobody makes room for one.
    await pool.purge();
    await pool.create(spec('small', 'ext4', { sizeBytes: 32n * mebibyte }));
    assert.deepEqual(templates(scratch), []);
    await pool.close();
  });

  test('what a volume was written counts as its own once it is at rest, also after a restart; and it can be cut', async () => {
    using scratch = new Scratch('templates');
    const first = await sharing(scratch, 1024n);
    const empty = (await first.capacity()).availableBytes;
    const { id } = await first.create(spec('v', 'ext4'));
    const templateBytes = BigInt(statSync(templates(scratch)[0] ?? '').blocks) * 512n;
    const near = (bytes: bigint, expected: bigint) => {
      const difference = bytes - expected;
      assert.ok(difference < 2n * mebibyte && difference > -2n * mebibyte, `${bytes} is not ${expected}`);
    };
    near((await first.capacity()).availableBytes, empty - size - templateBytes);
    await fill(first, id, 320n);
    await first.close();
    const second = await sharing(scratch, 1024n);
    near((await second.capacity()).availableBytes, empty - size - templateBytes);
    await second.takeSnapshots([{ id: snapshotIdFor('node', 's'), name: 's', sourceId: id, parameters: {} }]);
    near((await second.capacity()).availableBytes, empty - 2n * size - templateBytes);
    await second.removeSnapshot(snapshotIdFor('node', 's'));
    near((await second.capacity()).availableBytes, empty - size - templateBytes);
    await second.remove(id);
    await eventually(async () => near((await second.capacity()).availableBytes, empty - templateBytes));
    await second.close();
  });

  test('GC04: volumes that became thick do not own what they share, after a restart neither', async () => {
    using scratch = new Scratch('templates');
    const first = await sharing(scratch);
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const { id } = await first.create(spec(name, 'btrfs'));
      await first.modify(id, { provisioning: 'thick' });
    }
    const before = (await first.capacity()).availableBytes;
    await first.close();
    const second = await sharing(scratch);
    const after = (await second.capacity()).availableBytes;
    assert.ok(after < before + 2n * mebibyte, `${after} is more than ${before}`);
    await second.close();
  });

  test('a request at the same time as one is made does not get its space', async () => {
    using scratch = new Scratch('templates');
    const pool = await sharing(scratch, 1024n);
    const { availableBytes } = await pool.capacity();
    let other: Promise<unknown> | undefined;
    using _step = new BeforeStep('template/format', () => {
      const sizeBytes = ((availableBytes - 64n * mebibyte - 100n * mebibyte) / 4096n) * 4096n;
      other ??= pool
        .create(volumeSpec('other', { content: { type: 'block' }, sizeBytes }))
        .catch((error: unknown) => error);
    });
    await pool.create(spec('v', 'ext4', { sizeBytes: 64n * mebibyte }));
    assert.ok(!((await other) instanceof ResourceExhausted), `${await other}`);
    await pool.close();
  });
});

function isForeign(name: string): boolean {
  return name !== 'lost+found';
}
