import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { shortPath } from '../../src/volume/short-path.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-unstage');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

describe('NodeUnstageVolume', () => {
  test('US03, US04: never staged, unknown, no such directory: fine', async () => {
    const volume = await harness.volume('never-staged', ext4);
    await volume.unstage();
    await volume.unstage(join(harness.kubelet, 'staging', 'nothing'));
    await volume.unstage(join(harness.kubelet, 'no', 'such', 'place'));
    const file = `${volume.staging}-file`;
    writeFileSync(file, 'data');
    await volume.unstage(file);
    assert.equal(readFileSync(file, 'utf8'), 'data');
    for (const volume_id of ['x', '../..', volume.id.replace(/.$/, 'z')]) {
      await harness.node.NodeUnstageVolume({ volume_id, staging_target_path: volume.staging });
    }
  });

  test('US05: leaves the directory, no loop device, and can be repeated', async () => {
    const volume = await harness.volume('cycles', ext4);
    for (let i = 0; i < 20; i++) {
      await volume.stage();
      await volume.unstage();
      await volume.unstage();
    }
    assert.deepEqual(readdirSync(volume.staging), []);
    await harness.hasLoops(volume, 0);
    await harness.pool.remove(volume.id);
  });

  test('ST06: of another path than the staged one it forgets nothing that is known of the stage', async () => {
    const volume = await harness.volume('elsewhere', ext4);
    const another = `${volume.staging}-another`;
    mkdirSync(another);
    await volume.stage();
    await volume.unstage(another);
    assert.match(readFileSync(harness.noteOf(volume), 'utf8'), /"staging"/);
    const otherwise = { volume_capability: mountCapability('SINGLE_NODE_WRITER', ['noatime']) };
    await rejects(volume.stage(otherwise), 'ALREADY_EXISTS');
    await volume.stage();
    await volume.unstage();
  });

  test('US06: refuses while published, and nothing is torn down', async () => {
    const volume = await harness.volume('published', ext4);
    await volume.stage();
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'x');
    const before = harness.mounts();
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', new RegExp(shortPath(volume.target)));
    assert.deepEqual(harness.mounts(), before);
    await volume.down();
  });

  test('US04: where it was never staged: fine, and nothing is torn down, although it is staged and published elsewhere', async () => {
    for (const content of [ext4, { type: 'block' } as const]) {
      const volume = await harness.volume(`elsewhere-${content.type}`, content);
      const other = `${volume.staging}-other`;
      mkdirSync(other);
      await volume.stage();
      await volume.publish();
      const before = harness.mounts();
      for (const forgetNotes of [undefined, false]) {
        if (forgetNotes !== undefined) await harness.restart({ forgetNotes });
        await volume.unstage(other);
        await volume.unstage(join(harness.kubelet, 'staging', 'nothing'));
        assert.deepEqual(harness.mounts(), before);
      }
      await rejects(volume.unstage(), 'FAILED_PRECONDITION');
      await volume.down();
      await harness.hasLoops(volume, 0);
    }
  });

  test('US06: also if somebody has unmounted the staging path', async () => {
    const volume = await harness.volume('published-unmounted', ext4);
    await volume.stage();
    await volume.publish();
    run('umount', volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    await volume.down();
  });

  test('US06: a bind of a directory in the volume counts too', async () => {
    const volume = await harness.volume('sub-path', ext4);
    await volume.stage();
    mkdirSync(join(volume.staging, 'sub'));
    const subPath = harness.scratch.join('sub-path');
    mkdirSync(subPath);
    run('mount', '--bind', join(volume.staging, 'sub'), subPath);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    run('umount', subPath);
    await volume.unstage();
  });

  test('busy: says so, and works once it is not', async () => {
    const volume = await harness.volume('busy', ext4);
    await volume.stage();
    await using _user = await harness.workIn(volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /in use/);
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await _user[Symbol.asyncDispose]();
    await volume.unstage();
  });

  test('another volume, or a foreign mount, at the path is left alone', async () => {
    const [a, b] = [await harness.volume('leave-a', ext4), await harness.volume('leave-b', ext4)];
    await a.stage();
    await b.unstage(a.staging);
    assert.equal(harness.mountsAt(a.staging).length, 1);
    run('mount', '-t', 'tmpfs', 'none', b.staging);
    await b.unstage();
    assert.equal(harness.mountsAt(b.staging).length, 1);
    run('umount', b.staging);
    await a.unstage();
  });

  test('a foreign mount over ours: says what to do, undoes neither', async () => {
    const volume = await harness.volume('covered', ext4);
    await volume.stage();
    run('mount', '-t', 'tmpfs', 'none', volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /mounted over/);
    assert.equal(harness.mountsAt(volume.staging).length, 2);
    run('umount', volume.staging);
    await volume.unstage();
  });

  test('mounts stacked by somebody are all undone', async () => {
    const volume = await harness.volume('stacked', ext4);
    await volume.stage();
    run('mount', '--bind', volume.staging, volume.staging);
    run('mount', '--bind', volume.staging, volume.staging);
    assert.equal(harness.mountsAt(volume.staging).length, 3);
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
  });

  test('UP08: works without the record, without notes, and without the pool', async () => {
    const volume = await harness.volume('lost', ext4);
    await volume.stage();
    await harness.stop();
    run('mv', harness.directoryOf(volume), harness.scratch.join('moved-away'));
    await harness.start();
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    run('mv', harness.scratch.join('moved-away'), harness.directoryOf(volume));
    await harness.restart({ forgetNotes: true });

    await volume.stage();
    await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')) });
    await rejects(volume.stage(), 'UNAVAILABLE');
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    await harness.restart();
  });
});
