import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attachLoop } from '../../src/kernel/block/loop.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { shortPath } from '../../src/volume/short-path.ts';
import { BeforeStep } from '../support/before-step.ts';
import { detachLoopDevice } from '../support/left-behind.ts';
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
    return readFrom(fd);
  } finally {
    closeSync(fd);
  }
}

function readFrom(fd: number): string {
  const bytes = Buffer.alloc(4096);
  readSync(fd, bytes, 0, 4096, 0);
  return bytes.toString('utf8').replace(/\0+$/, '');
}

/** The number of the device that a node stands for. */
function deviceOf(path: string): readonly [major: number, minor: number] {
  const [major = 0, minor = 0] = run('stat', '--format=%Hr %Lr', path).split(' ').map(Number);
  return [major, minor];
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

  test('PB14: read-only means the device, for as many readers as there are', async () => {
    const volume = await harness.volume('readonly', block);
    const [reader, secondReader] = [join(volume.pod, 'r1'), join(volume.pod, 'r2')];
    await volume.stage(many);
    await volume.publish(many);
    write(volume.target, 'written');
    await volume.unpublish();
    await volume.publish({ ...many, target_path: reader, readonly: true });
    await volume.publish({ ...many, target_path: secondReader, readonly: true });
    for (let i = 0; i < 3; i++) await volume.publish({ ...many, target_path: reader, readonly: true });
    for (const target of [reader, secondReader]) {
      assert.throws(
        () => write(target, 'no'),
        (error) => isCode(error, 'EPERM', 'EROFS', 'EACCES'),
      );
      assert.throws(() => run('dd', 'if=/dev/zero', `of=${target}`, 'bs=4096', 'count=1', 'conv=notrunc'));
      assert.throws(() => run('blkdiscard', target));
      assert.equal(read(target), 'written');
    }
    await harness.hasLoops(volume, 1);
    // The same stage again, while its device takes no writes (ST04).
    await volume.stage(many);
    await harness.restart({ forgetNotes: true });
    await volume.stage(many);
    await volume.publish({ ...many, target_path: reader, readonly: true });
    await volume.unpublish(reader);
    await volume.unpublish(secondReader);
    await volume.publish(many);
    write(volume.target, 'again');
    await volume.down();
  });

  test('PB14: never read-only beside writable, for the one device is one or the other', async () => {
    const volume = await harness.volume('mixed', block);
    const second = `${volume.target}-second`;
    await volume.stage(many);
    for (const readonly of [false, true]) {
      await volume.publish({ ...many, readonly });
      const words = new RegExp(`published ${readonly ? 'read-only' : 'writable'} at ${shortPath(volume.target)}`);
      const other = { ...many, target_path: second, readonly: !readonly };
      await rejects(volume.publish(other), 'FAILED_PRECONDITION', words);
      assert.ok(!existsSync(second));
      await harness.restart({ forgetNotes: true });
      await rejects(volume.publish(other), 'FAILED_PRECONDITION', words);
      await volume.publish({ ...other, readonly });
      await volume.unpublish(second);
      await volume.unpublish();
    }
    await volume.unstage();
  });

  test('PB14: who keeps the device open for long reads what was written since', async () => {
    const volume = await harness.volume('held', block);
    await volume.stage(many);
    await volume.publish(many);
    write(volume.target, 'old');
    await volume.unpublish();
    await volume.publish({ ...many, readonly: true });
    // A container has a node of its own, and may outlive its unpublish.
    const node = harness.scratch.join('node-of-container');
    const [major, minor] = deviceOf(volume.target);
    run('mknod', node, 'b', `${major}`, `${minor}`);
    const held = openSync(node, 'r');
    try {
      assert.equal(readFrom(held), 'old');
      await volume.unpublish();
      await volume.publish(many);
      write(volume.target, 'new');
      await volume.unpublish();
      await volume.publish({ ...many, readonly: true });
      assert.equal(readFrom(held), 'new');
      assert.equal(read(volume.target), 'new');
    } finally {
      closeSync(held);
    }
    await volume.down();
  });

  test('PB14: what a writer left is in the image, and the device refuses writes, before anybody sees it read-only', async () => {
    const volume = await harness.volume('left', block);
    await volume.stage(many);
    await volume.publish(many);
    const [device = assert.fail()] = harness.loopsOf(volume);
    // As long as somebody has the device open the kernel writes nothing back by itself.
    const held = openSync(device, 'r');
    let seen: unknown;
    try {
      write(volume.target, 'left');
      await volume.unpublish();
      using _look = new BeforeStep('publish/mount', () => {
        seen = { refusesWrites: run('blockdev', '--getro', device), image: read(harness.imageOf(volume)) };
      });
      await volume.publish({ ...many, readonly: true });
    } finally {
      closeSync(held);
    }
    assert.deepEqual(seen, { refusesWrites: '1', image: 'left' });
    await volume.down();
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
    // What has the name of our file is somebody else's there.
    writeFileSync(join(volume.staging, volume.id), '');
    await volume.unstage();
    assert.deepEqual(readdirSync(volume.staging), [volume.id]);
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

  test('UP06: data under the name of our file in the staging directory stays', async () => {
    const volume = await harness.volume('data-in-staging', block);
    await volume.stage();
    await volume.unstage();
    const path = join(volume.staging, volume.id);
    writeFileSync(path, 'data');
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /not the volume's/);
    assert.equal(readFileSync(path, 'utf8'), 'data');
    run('rm', path);
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
    // Somebody who looks at all disks may have it open just now: then it goes a moment later.
    await harness.hasLoops(volume, 0);
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
    for (const device of harness.loopsOf(volume)) detachLoopDevice(device);
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

  test('T04: a second, read-only device, as earlier versions made one, goes with the unpublish', async () => {
    const volume = await harness.volume('ro-leftover', block);
    await volume.stage(many);
    const queue = new DiskQueue('older', 1);
    const attach = async () => {
      const backing = harness.imageOf(volume);
      const request = { backing, label: volume.id, readonly: true, autoclear: false, blockSizeBytes: 4096 };
      await using loop = (await attachLoop(queue, request)).descriptor;
      return loop.path;
    };
    const older = await attach();
    run('touch', volume.target);
    run('mount', '--bind', older, volume.target);
    const second = { ...many, target_path: `${volume.target}-second` };
    await rejects(volume.publish(second), 'FAILED_PRECONDITION', /published read-only/);
    await volume.publish({ ...many, readonly: true });
    await volume.unpublish();
    await harness.hasLoops(volume, 1);
    await attach();
    await harness.hasLoops(volume, 2);
    await volume.unpublish();
    await harness.hasLoops(volume, 1);
    await volume.unstage();
  });
});

function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
