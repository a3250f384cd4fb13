import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { filesystems, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-unpublish');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;
const multiWriter = mountCapability('SINGLE_NODE_MULTI_WRITER');

function staged(name: string, capability = mountCapability()) {
  return harness.staged(name, ext4, capability);
}

describe('NodeUnpublishVolume', () => {
  test('UP03, UP05: removes the target; again, a missing parent, an unknown volume: fine', async () => {
    const volume = await staged('unpublished');
    await volume.publish();
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    await volume.unpublish();
    await volume.unpublish(join(volume.pod, 'never', 'there'));
    for (const volume_id of ['x', '../../etc', volume.id.replace(/.$/, 'z')]) {
      await harness.node.NodeUnpublishVolume({ volume_id, target_path: volume.target });
    }
    await volume.unstage();
  });

  test('UP05: a path that is there but not mounted is removed', async () => {
    const volume = await harness.volume('leftover', ext4);
    mkdirSync(volume.target);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    writeFileSync(volume.target, '');
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
  });

  test('UP06: data that is not the volume’s is never deleted', async () => {
    const volume = await staged('precious');
    mkdirSync(volume.target);
    writeFileSync(join(volume.target, 'precious'), 'data');
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION');
    assert.equal(readFileSync(join(volume.target, 'precious'), 'utf8'), 'data');
    const file = `${volume.target}-file`;
    writeFileSync(file, 'data');
    await rejects(volume.unpublish(file), 'FAILED_PRECONDITION');
    assert.equal(readFileSync(file, 'utf8'), 'data');
    symlinkSync(volume.target, `${volume.target}-link`);
    await rejects(volume.unpublish(`${volume.target}-link`), 'INVALID_ARGUMENT');
    await rejects(volume.unpublish(`${volume.target}-link/precious`), 'INVALID_ARGUMENT');
    assert.ok(existsSync(`${volume.target}-link`));
    await volume.unstage();
  });

  test('UP06: data of the volume stays when its target goes', async () => {
    const volume = await staged('stays');
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'kept');
    await volume.unpublish();
    assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
    await volume.unstage();
  });

  test('UP06: busy: nothing is removed', async () => {
    const volume = await staged('busy');
    await volume.publish();
    await using user = await harness.workIn(volume.target);
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION', /in use/);
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await user[Symbol.asyncDispose]();
    await volume.down();
  });

  test('UP06: stacked mounts of the volume are all undone', async () => {
    const volume = await staged('stacked');
    await volume.publish();
    for (let i = 0; i < 5; i++) run('mount', '--bind', volume.staging, volume.target);
    assert.equal(harness.mountsAt(volume.target).length, 6);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unstage();
  });

  test('UP07: other targets and the staging path stay', async () => {
    const volume = await staged('others', multiWriter);
    const second = `${volume.target}-second`;
    await volume.publish({ volume_capability: multiWriter });
    await volume.publish({ volume_capability: multiWriter, target_path: second });
    await volume.unpublish();
    assert.equal(harness.mountsAt(second).length, 1);
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await rejects(volume.unpublish(volume.staging), 'FAILED_PRECONDITION');
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unpublish(second);
    await volume.unstage();
  });

  test('UP07: another volume, and a foreign mount, at the path are left alone', async () => {
    const [a, b] = [await staged('other-a'), await staged('other-b')];
    await a.publish();
    await b.unpublish(a.target);
    await harness.node.NodeUnpublishVolume({ volume_id: '../x', target_path: a.target });
    assert.equal(harness.mountsAt(a.target).length, 1);
    mkdirSync(b.target);
    run('mount', '-t', 'tmpfs', 'none', b.target);
    await b.unpublish();
    assert.equal(harness.mountsAt(b.target).length, 1);
    run('umount', b.target);
    await Promise.all([a.down(), b.down()]);
  });

  test('a foreign mount over ours: says what to do', async () => {
    const volume = await staged('covered');
    await volume.publish();
    run('mount', '-t', 'tmpfs', 'none', volume.target);
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION', /mounted over/);
    run('umount', volume.target);
    await volume.down();
  });

  test('UP08: without the record, without our notes, without the pool', async () => {
    const volume = await staged('lost');
    await volume.publish();
    await harness.stop();
    run('mv', harness.directoryOf(volume), harness.scratch.join('moved-away'));
    await harness.start();
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    run('mv', harness.scratch.join('moved-away'), harness.directoryOf(volume));
    await harness.restart({ forgetNotes: true });

    await volume.stage();
    await volume.publish();
    await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')), forgetNotes: true });
    await rejects(volume.publish(), 'UNAVAILABLE');
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    await harness.restart();
  });

  for (const { fsType, sizeBytes } of filesystems) {
    test(`UP08: ${fsType} after it was shut down by errors`, async () => {
      const volume = await harness.volume(`shutdown-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      harness.shutDown(volume);
      await volume.down();
      assert.ok(!existsSync(volume.target));
      assert.deepEqual(harness.mountsAt(volume.staging), []);
      await harness.hasLoops(volume, 0);
    });
  }

  test('T05: the opposite calls first, in any order', async () => {
    const volume = await harness.volume('order', ext4);
    await volume.unpublish();
    await volume.unstage();
    await volume.unpublish();
    await rejects(volume.publish(), 'FAILED_PRECONDITION');
    await volume.stage();
    await volume.unpublish();
    await volume.publish();
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    await volume.stage();
    await volume.publish();
    await volume.unpublish();
    await volume.unstage();
    await volume.unpublish();
    rmdirSync(volume.staging);
    await volume.unstage();
  });

  test('no mount, device, note or target is left after a hundred rounds', async () => {
    const volume = await harness.volume('rounds', ext4);
    for (let i = 0; i < 100; i++) {
      await volume.stage();
      await volume.publish();
      await volume.down();
    }
    assert.deepEqual(harness.mounts(), []);
    await harness.hasLoops(volume, 0);
    assert.ok(!existsSync(harness.noteOf(volume)));
  });
});
