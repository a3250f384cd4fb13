import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-block');
});
after(() => harness[Symbol.asyncDispose]());

const block = { type: 'block' } as const;
const multiWriter = blockCapability('SINGLE_NODE_MULTI_WRITER');
const many = { volume_capability: multiWriter };

function write(path: string, text: string): void {
  const fd = openSync(path, 'r+');
  try {
    writeSync(fd, Buffer.from(text.padEnd(4096, '\0')), 0, 4096, 0);
  } finally {
    closeSync(fd);
  }
}

function read(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(4096);
    readSync(fd, bytes, 0, 4096, 0);
    return bytes.toString('utf8').replace(/\0+$/, '');
  } finally {
    closeSync(fd);
  }
}

describe('block volumes', () => {
  test('PB15: the target is a block device; its data is there after everything was undone', async () => {
    const volume = await harness.volume('data', block);
    await volume.stage();
    await volume.publish();
    assert.ok(lstatSync(volume.target).isBlockDevice());
    assert.equal(run('blockdev', '--getsize64', volume.target), `${64 << 20}`);
    write(volume.target, 'kept');
    await volume.down();
    assert.ok(!existsSync(volume.target));
    await volume.stage();
    await volume.publish();
    assert.equal(read(volume.target), 'kept');
    await volume.down();
  });

  test('ST04, PB05: ten times the same is once', async () => {
    const volume = await harness.volume('replayed', block);
    for (let i = 0; i < 10; i++) await volume.stage();
    for (let i = 0; i < 10; i++) await volume.publish();
    await harness.hasLoops(volume, 1);
    assert.equal(harness.mountsAt(volume.target).length, 1);
    assert.equal(harness.mountsAt(join(volume.staging, volume.id)).length, 1);
    await volume.down();
  });

  test('ST06, PB07: other arguments', async () => {
    const volume = await harness.volume('other', block);
    await volume.stage();
    await rejects(volume.stage(many), 'ALREADY_EXISTS');
    await volume.publish();
    await rejects(volume.publish({ readonly: true }), 'ALREADY_EXISTS');
    await rejects(volume.publish(many), 'ALREADY_EXISTS');
    await harness.restart({ forgetNotes: true });
    await volume.stage();
    await volume.publish();
    await rejects(volume.publish({ readonly: true }), 'ALREADY_EXISTS');
    await volume.down();
  });

  test('ST07, PB12: as a filesystem', async () => {
    const volume = await harness.volume('exceeds', block);
    await rejects(volume.stage({ volume_capability: mountCapability() }), 'FAILED_PRECONDITION');
    await volume.stage();
    await rejects(volume.publish({ volume_capability: mountCapability() }), 'FAILED_PRECONDITION');
    await volume.unstage();
  });

  test('US05: leaves the directory as it was, and no device', async () => {
    const volume = await harness.volume('cycles', block);
    for (let i = 0; i < 20; i++) {
      await volume.stage();
      await volume.publish({ readonly: i % 2 === 0 });
      await volume.down();
      await volume.down();
    }
    assert.deepEqual(readdirSync(volume.staging), []);
    await harness.hasLoops(volume, 0);
    await harness.pool.remove(volume.id);
  });

  test('US06: refuses while published, read-only too', async () => {
    const volume = await harness.volume('published', block);
    await volume.stage(many);
    for (const readonly of [false, true]) {
      await volume.publish({ ...many, readonly });
      const before = harness.mounts();
      await rejects(volume.unstage(), 'FAILED_PRECONDITION');
      assert.deepEqual(harness.mounts(), before);
      await volume.unpublish();
    }
    await volume.unstage();
  });

  test('PB06, PB09: a second target, read-only or not', async () => {
    for (const mode of ['SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_WRITER'] as const) {
      const volume = await harness.volume(`second-${mode}`, block);
      const volume_capability = blockCapability(mode);
      await volume.stage({ volume_capability });
      const second = `${volume.target}-second`;
      for (const readonly of [false, true]) {
        await volume.publish({ volume_capability, readonly });
        await rejects(volume.publish({ volume_capability, target_path: second }), 'FAILED_PRECONDITION');
        await rejects(
          volume.publish({ volume_capability, target_path: second, readonly: true }),
          'FAILED_PRECONDITION',
        );
        await volume.unpublish();
      }
      assert.ok(!existsSync(second));
      await volume.unstage();
    }
  });

  test('PB14: read-only means the device, beside a writable one', async () => {
    const volume = await harness.volume('readonly', block);
    const [reader, secondReader, writer] = ['r1', 'r2', 'w'].map((name) => join(volume.pod, name)) as [
      string,
      string,
      string,
    ];
    await volume.stage(many);
    await volume.publish({ ...many, target_path: reader, readonly: true });
    await volume.publish({ ...many, target_path: secondReader, readonly: true });
    await volume.publish({ ...many, target_path: writer });
    for (let i = 0; i < 3; i++) await volume.publish({ ...many, target_path: reader, readonly: true });
    write(writer, 'written');
    run('sync');
    assert.throws(
      () => write(reader, 'no'),
      (error) => isCode(error, 'EPERM', 'EROFS', 'EACCES'),
    );
    assert.throws(() => run('dd', 'if=/dev/zero', `of=${reader}`, 'bs=4096', 'count=1', 'conv=notrunc'));
    run('blockdev', '--flushbufs', reader);
    assert.equal(read(reader), 'written');
    await harness.hasLoops(volume, 2);
    await volume.unpublish(reader);
    await harness.hasLoops(volume, 2);
    await volume.unpublish(secondReader);
    await harness.hasLoops(volume, 1);
    write(writer, 'still');
    await volume.unpublish(writer);
    await volume.unstage();
  });

  test('A02: a reader-only mode gives a device that takes no writes', async () => {
    const volume = await harness.volume('reader-only', block);
    const volume_capability = blockCapability('SINGLE_NODE_READER_ONLY');
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability });
    assert.throws(
      () => write(volume.target, 'no'),
      (error) => isCode(error, 'EPERM', 'EROFS', 'EACCES'),
    );
    await volume.down();
  });

  test('PB16: an empty file is used; a directory, or a file with data, is not', async () => {
    const volume = await harness.volume('target', block);
    await volume.stage();
    writeFileSync(volume.target, '');
    await volume.publish();
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    writeFileSync(volume.target, 'data');
    await rejects(volume.publish(), 'ALREADY_EXISTS');
    mkdirSync(`${volume.target}-directory`);
    await rejects(volume.publish({ target_path: `${volume.target}-directory` }), 'ALREADY_EXISTS');
    await volume.unstage();
  });

  test('PB18: at the target of another volume', async () => {
    const [a, b] = [await harness.volume('pb18-a', block), await harness.volume('pb18-b', block)];
    await Promise.all([a.stage(), b.stage()]);
    await a.publish();
    await rejects(b.publish({ target_path: a.target }), 'ALREADY_EXISTS');
    await b.unpublish(a.target);
    assert.equal(harness.mountsAt(a.target).length, 1);
    await Promise.all([a.down(), b.down()]);
  });

  test('a staging directory that has a filesystem mounted on it', async () => {
    const volume = await harness.volume('mounted-staging', block);
    run('mount', '-t', 'tmpfs', 'none', volume.staging);
    await rejects(volume.stage(), 'ALREADY_EXISTS');
    assert.deepEqual(readdirSync(volume.staging), []);
    run('umount', volume.staging);
    await harness.hasLoops(volume, 0);
  });

  test('UP06: stacked, and left alone where it is no device of ours', async () => {
    const volume = await harness.volume('stacked', block);
    await volume.stage();
    await volume.publish();
    run('mount', '--bind', join(volume.staging, volume.id), volume.target);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    run('mknod', volume.target, 'b', '7', '0');
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION');
    assert.ok(existsSync(volume.target));
    run('rm', volume.target);
    await volume.unstage();
  });

  test('US06 UP07: the staged device itself is for the unstage of its directory alone', async () => {
    const volume = await harness.volume('by-file', block);
    await volume.stage();
    const staged = join(volume.staging, volume.id);
    await rejects(volume.unpublish(staged), 'FAILED_PRECONDITION', /NodeUnstageVolume/);
    await volume.unstage(staged);
    assert.equal(harness.mountsAt(staged).length, 1);
    await harness.hasLoops(volume, 1);
    await volume.unstage();
    await harness.hasLoops(volume, 0);
  });

  test('UP06: a staging directory that was moved away is undone where it is, with the device', async () => {
    const volume = await harness.volume('moved', block);
    await volume.stage();
    const moved = `${volume.staging}-moved`;
    renameSync(volume.staging, moved);
    await volume.unpublish(join(moved, volume.id));
    await harness.hasLoops(volume, 0);
    await harness.pool.remove(volume.id);
  });

  test('ST10: restores what somebody unmounted or detached', async () => {
    const volume = await harness.volume('restored', block);
    const staged = join(volume.staging, volume.id);
    await volume.stage();
    write(staged, 'kept');
    run('umount', staged);
    await volume.stage();
    await harness.hasLoops(volume, 1);
    run('losetup', '--detach', harness.loopsOf(volume)[0] ?? '');
    await rejects(volume.publish(), 'FAILED_PRECONDITION');
    await volume.stage();
    assert.equal(harness.mountsAt(staged).length, 1);
    assert.equal(read(staged), 'kept');
    await volume.publish();
    await volume.down();
    await harness.hasLoops(volume, 0);
  });

  test('UP08: undone although the device was detached, the record is gone or the pool is broken', async () => {
    const volume = await harness.volume('broken', block);
    await volume.stage();
    await volume.publish({ readonly: true });
    for (const device of harness.loopsOf(volume)) run('losetup', '--detach', device);
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(readdirSync(volume.staging), []);

    await volume.stage();
    await volume.publish();
    await harness.stop();
    run('mv', harness.directoryOf(volume), harness.scratch.join('moved-away'));
    await harness.start();
    await volume.down();
    assert.ok(!existsSync(volume.target));
    run('mv', harness.scratch.join('moved-away'), harness.directoryOf(volume));
    await harness.restart();
    await harness.hasLoops(volume, 0);

    await volume.stage();
    await volume.publish({ readonly: true });
    await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')) });
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(readdirSync(volume.staging), []);
    await harness.restart();
    await harness.hasLoops(volume, 0);
  });

  test('T04: a read-only device whose unpublish died before it was detached goes with the replay', async () => {
    const volume = await harness.volume('ro-leftover', block);
    await volume.stage();
    await volume.publish({ readonly: true });
    run('umount', volume.target);
    await harness.hasLoops(volume, 2);
    await volume.unpublish();
    await harness.hasLoops(volume, 1);
    await volume.unstage();
  });
});

function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
