import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, filesystems, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-publish');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;
const singleWriter = mountCapability('SINGLE_NODE_SINGLE_WRITER');
const multiWriter = mountCapability('SINGLE_NODE_MULTI_WRITER');
const readerOnly = mountCapability('SINGLE_NODE_READER_ONLY');

function staged(name: string, capability = mountCapability()) {
  return harness.staged(name, ext4, capability);
}

describe('NodePublishVolume', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`${fsType}: data is written, unmounted, and there when it is mounted again (PB15)`, async () => {
      const volume = await harness.volume(`data-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      assert.ok(statSync(volume.target).isDirectory());
      writeFileSync(join(volume.target, 'file'), 'kept');
      await volume.down();
      assert.ok(!existsSync(volume.target));
      await volume.stage();
      await volume.publish();
      assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
      await volume.down();
    });
  }

  test('PB05: ten times the same is once; at once, too', async () => {
    const volume = await staged('replayed');
    for (let i = 0; i < 10; i++) await volume.publish();
    await Promise.all(Array.from({ length: 20 }, () => volume.publish()));
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await volume.down();
  });

  test('PB05: the same after a restart, with and without our notes', async () => {
    const volume = await staged('restarted', multiWriter);
    await volume.publish({ volume_capability: multiWriter });
    await harness.restart();
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: multiWriter, readonly: true }), 'ALREADY_EXISTS');
    await harness.restart({ forgetNotes: true });
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: multiWriter, readonly: true }), 'ALREADY_EXISTS');
    await volume.down();
  });

  describe('PB07: the same target with other arguments', () => {
    const changes = {
      readonly: { readonly: true },
      'other flags': { volume_capability: mountCapability('SINGLE_NODE_WRITER', ['noatime']) },
      'another mode': { volume_capability: singleWriter },
    };
    for (const [what, change] of Object.entries(changes)) {
      test(what, async () => {
        const volume = await staged(`other-${what}`);
        await volume.publish();
        const before = harness.mountsAt(volume.target);
        await rejects(volume.publish(change), 'ALREADY_EXISTS');
        assert.deepEqual(harness.mountsAt(volume.target), before);
        await volume.publish();
        await volume.down();
      });
    }
    test('somebody remounted it read-only', async () => {
      const volume = await staged('other-remounted');
      await volume.publish();
      run('mount', '-o', 'remount,bind,ro', volume.target);
      await rejects(volume.publish(), 'ALREADY_EXISTS');
      await volume.down();
    });
  });

  describe('a second target', () => {
    const single = {
      'PB06: SINGLE_NODE_SINGLE_WRITER': singleWriter,
      'PB09: SINGLE_NODE_WRITER': mountCapability('SINGLE_NODE_WRITER'),
      'PB08: SINGLE_NODE_READER_ONLY': readerOnly,
    };
    for (const [what, volume_capability] of Object.entries(single)) {
      test(`${what}: refused, and the target is not made`, async () => {
        const volume = await staged(`second-${what}`, volume_capability);
        await volume.publish({ volume_capability });
        const second = `${volume.target}-second`;
        await rejects(volume.publish({ volume_capability, target_path: second }), 'FAILED_PRECONDITION');
        await rejects(
          volume.publish({ volume_capability, target_path: second, readonly: true }),
          'FAILED_PRECONDITION',
        );
        assert.ok(!existsSync(second));
        await volume.unpublish();
        await volume.publish({ volume_capability, target_path: second });
        await volume.unpublish(second);
        await volume.unstage();
      });
    }
    test('PB06: also if the first was published before a restart, and the notes are lost', async () => {
      const volume = await staged('second-restart', singleWriter);
      await volume.publish({ volume_capability: singleWriter });
      await harness.restart({ forgetNotes: true });
      const second = { volume_capability: singleWriter, target_path: `${volume.target}-second` };
      await rejects(volume.publish(second), 'FAILED_PRECONDITION');
      await volume.down();
    });
    test('PB06: of two at once one is published', async () => {
      const volume = await staged('second-race', singleWriter);
      const targets = ['a', 'b', 'c', 'd'].map((name) => join(volume.pod, name));
      const answers = await Promise.allSettled(
        targets.map((target_path) => volume.publish({ volume_capability: singleWriter, target_path })),
      );
      assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal(targets.filter((target) => harness.mountsAt(target).length === 1).length, 1);
      assert.equal(targets.filter((target) => existsSync(target)).length, 1);
      for (const target of targets) await volume.unpublish(target);
      await volume.unstage();
    });
    test('PB08, PB14: SINGLE_NODE_MULTI_WRITER takes many, read-only or not', async () => {
      const volume = await staged('many', multiWriter);
      const targets = Array.from({ length: 6 }, (_, i) => join(volume.pod, `${i}`));
      await Promise.all(
        targets.map((target_path, i) =>
          volume.publish({ volume_capability: multiWriter, target_path, readonly: i % 2 === 1 }),
        ),
      );
      for (const [i, target] of targets.entries()) {
        assert.equal(harness.mountsAt(target)[0]?.options.includes('ro'), i % 2 === 1);
        if (i % 2 === 0) writeFileSync(join(target, `${i}`), 'x');
        else assert.throws(() => writeFileSync(join(target, `${i}`), 'x'), { code: 'EROFS' });
      }
      assert.ok(existsSync(join(targets[1] ?? '', '4')));
      await volume.unpublish(targets[0]);
      assert.equal(harness.mounts().filter(({ target }) => targets.includes(target)).length, 5);
      for (const target of targets) await volume.unpublish(target);
      await volume.unstage();
    });
  });

  test('PB10: another capability than the staged one is refused, whatever the target', async () => {
    const volume = await staged('pb10', multiWriter);
    const others = [
      singleWriter,
      mountCapability('SINGLE_NODE_MULTI_WRITER', ['noatime']),
      mountCapability('SINGLE_NODE_MULTI_WRITER', ['commit=20']),
    ];
    for (const volume_capability of others) {
      await rejects(volume.publish({ volume_capability }), 'FAILED_PRECONDITION');
      assert.ok(!existsSync(volume.target));
    }
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: singleWriter }), 'ALREADY_EXISTS');
    await volume.down();
  });

  test('PB11: an unknown volume, and an id that is none', async () => {
    const volume = await harness.volume('unknown', ext4);
    await harness.pool.remove(volume.id);
    for (const volume_id of [volume.id, 'x', '../../etc', `${volume.id}/..`]) {
      await rejects(volume.publish({ volume_id }), 'NOT_FOUND');
    }
    assert.ok(!existsSync(volume.target));
  });

  test('PB12, A04: a capability that exceeds the volume', async () => {
    const volume = await staged('exceeds');
    for (const volume_capability of [
      blockCapability(),
      mountCapability('SINGLE_NODE_WRITER', [], 'xfs'),
      mountCapability('MULTI_NODE_READER_ONLY'),
    ]) {
      await rejects(volume.publish({ volume_capability }), 'FAILED_PRECONDITION');
    }
    assert.ok(!existsSync(volume.target));
    await volume.unstage();
  });

  describe('PB13: not staged', () => {
    test('no staging path, another directory, none at all', async () => {
      const volume = await staged('unstaged');
      const empty = `${volume.staging}-empty`;
      mkdirSync(empty);
      for (const staging_target_path of ['', empty, `${volume.staging}-missing`]) {
        await rejects(volume.publish({ staging_target_path }), 'FAILED_PRECONDITION');
      }
      await rejects(volume.publish({ staging_target_path: 'relative' }), 'INVALID_ARGUMENT');
      assert.ok(!existsSync(volume.target));
      await volume.unstage();
      await rejects(volume.publish(), 'FAILED_PRECONDITION');
    });
    test('the staging path of another volume', async () => {
      const [a, b] = [await staged('unstaged-a'), await staged('unstaged-b')];
      await rejects(a.publish({ staging_target_path: b.staging }), 'FAILED_PRECONDITION');
      assert.ok(!existsSync(a.target));
      await Promise.all([a.unstage(), b.unstage()]);
    });
    test('the staging path as the target', async () => {
      const volume = await staged('staging-as-target');
      await rejects(volume.publish({ target_path: volume.staging }), 'INVALID_ARGUMENT');
      assert.equal(harness.mountsAt(volume.staging).length, 1);
      await volume.unstage();
    });
  });

  describe('PB14: read-only', () => {
    test('readonly: writes fail here and work elsewhere', async () => {
      const volume = await staged('readonly');
      await volume.publish({ readonly: true });
      assert.ok(harness.mountsAt(volume.target)[0]?.options.includes('ro'));
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      writeFileSync(join(volume.staging, 'x'), '');
      await volume.down();
    });
    test('A02: a reader-only mode, whatever readonly says', async () => {
      const volume = await staged('reader-only', readerOnly);
      await volume.publish({ volume_capability: readerOnly, readonly: false });
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      await volume.publish({ volume_capability: readerOnly, readonly: true });
      await volume.down();
    });
    test('the flag ro', async () => {
      const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['ro']);
      const volume = await staged('ro-flag', volume_capability);
      await volume.publish({ volume_capability });
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      await volume.down();
    });
  });

  test('ST11: a foreign volume_context', async () => {
    const volume = await staged('context');
    await rejects(volume.publish({ volume_context: { other: 'x' } }), 'INVALID_ARGUMENT');
    await volume.publish({ volume_context: { 'csi.storage.k8s.io/ephemeral': 'false' } });
    await volume.down();
  });

  test('X03: secrets are taken and kept nowhere', async () => {
    const volume = await staged('secrets');
    await volume.publish({ secrets: { key: 'holdfast-secret' } });
    assert.ok(!readFileSync(harness.noteOf(volume), 'utf8').includes('holdfast-secret'));
    // Other secrets are no other arguments (PB07).
    await volume.publish({ secrets: { key: 'another' } });
    await volume.down();
  });
});
