import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { ephemeralIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { shortPath } from '../../src/volume/short-path.ts';
import { eventually } from '../support/eventually.ts';
import { GitRepository } from '../support/git-repository.ts';
import { SilentServer } from '../support/git-server.ts';
import { openTestPool } from '../support/image-pool.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, filesystems, mountCapability } from '../support/node-volume.ts';
import { Scratch } from '../support/scratch.ts';

let harness: NodeHarness;
let repositories: Scratch;
let repository: GitRepository;
before(async () => {
  harness = await NodeHarness.open('ephemeral');
  repositories = new Scratch('git');
  repository = new GitRepository(repositories.path);
});
after(async () => {
  repositories[Symbol.dispose]();
  await harness[Symbol.asyncDispose]();
});

type Changes = Draft<Partial<wire.NodePublishVolumeRequest>>;

let made = 0;

/** An inline volume of a pod, as the kubelet sees it. */
class InlineVolume {
  /** Like the kubelet's: no id of ours. */
  readonly handle = `csi-${`${made++}`.padStart(64, '0')}`;
  readonly id = ephemeralIdFor('node', this.handle);
  readonly pod = join(harness.kubelet, 'pods', this.handle);
  readonly target = join(this.pod, 'mount');
  readonly attributes: Readonly<Record<string, string>>;

  constructor(attributes: Readonly<Record<string, string>> = { size: '32Mi' }) {
    this.attributes = attributes;
    mkdirSync(this.pod);
  }

  publish(changes: Changes = {}, attributes = this.attributes) {
    return harness.node.NodePublishVolume({
      volume_id: this.handle,
      target_path: this.target,
      volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER'),
      volume_context: {
        'csi.storage.k8s.io/ephemeral': 'true',
        'csi.storage.k8s.io/pod.name': 'web-0',
        'csi.storage.k8s.io/serviceAccount.tokens': `{"":{"token":"secret-${made++}"}}`,
        ...attributes,
      },
      ...changes,
    });
  }

  unpublish(target_path = this.target) {
    return harness.node.NodeUnpublishVolume({ volume_id: this.handle, target_path });
  }

  stats() {
    return harness.node.NodeGetVolumeStats({ volume_id: this.handle, volume_path: this.target });
  }

  file(name: string): string {
    return join(this.target, name);
  }

  read(name: string): string {
    return readFileSync(this.file(name), 'utf8');
  }
}

/** Asserts that there is nothing of the volume, on the node and in the pool. */
async function assertGone({ id, pod, target }: InlineVolume): Promise<void> {
  assert.ok(!existsSync(target), 'the target was left');
  assert.equal(await harness.pool.find(id), undefined, 'the record was left');
  assert.deepEqual(
    harness.mounts().filter((mount) => mount.target.startsWith(pod)),
    [],
  );
  assert.deepEqual(await harness.pool.trash(), []);
  assert.ok(!existsSync(harness.scratch.join('data', 'node', `${id}.json`)), 'a note was left');
  await eventually(() => {
    for (const part of ['volumes', 'tmp', 'trash']) {
      const left = readdirSync(harness.scratch.join('pool', part)).filter((name) => name.startsWith(id));
      assert.deepEqual(left, [], part);
    }
    const loops = run('losetup', '--noheadings', '--output', 'BACK-FILE');
    assert.ok(!loops.includes(`${harness.scratch.path}/pool/volumes/${id}/`), 'a loop device was left');
  });
}

describe('an inline volume', () => {
  for (const { fsType } of filesystems) {
    test(`${fsType}: made by its publish, empty and for everybody, and gone with its unpublish`, async () => {
      const volume = new InlineVolume({ size: '32Mi', fsType });
      await volume.publish();
      const [mount] = harness.mountsAt(volume.target);
      assert.equal(mount?.fsType, fsType);
      assert.deepEqual(mount.options, ['rw', 'relatime']);
      assert.deepEqual(readdirSync(volume.target), []);
      assert.equal(statSync(volume.target).mode & 0o7777, 0o777);
      writeFileSync(volume.file('file'), 'x');
      await volume.unpublish();
      await assertGone(volume);
      await volume.unpublish();
    });
  }

  test('holds no more than its size', async () => {
    const volume = new InlineVolume({ size: '20Mi', fsType: 'ext4' });
    await volume.publish();
    const { blocks, bsize } = statfsSync(volume.target);
    assert.ok(blocks * bsize <= 20 << 20);
    assert.throws(() => writeFileSync(volume.file('large'), Buffer.alloc(21 << 20)), /ENOSPC/);
    await volume.unpublish();
    await assertGone(volume);
  });

  test('without attributes it has 1 GiB and the filesystem of the pool', async () => {
    const volume = new InlineVolume({});
    await volume.publish();
    const record = await harness.pool.find(volume.id);
    assert.equal(record?.sizeBytes, 1n << 30n);
    assert.deepEqual(record.content, { type: 'mount', fsType: 'ext4' });
    await volume.unpublish();
  });

  test('X01: its record says whose it is, and has no tokens', async () => {
    const volume = new InlineVolume({ size: '32Mi', pool: 'test' });
    await volume.publish();
    const record = await harness.pool.find(volume.id);
    assert.equal(record?.name, volume.handle);
    assert.equal(record.ephemeral?.handle, volume.handle);
    assert.equal(record.undeleteSeconds, 0);
    assert.deepEqual(record.parameters, { 'csi.storage.k8s.io/pod.name': 'web-0', pool: 'test', size: '32Mi' });
    const stored = readFileSync(harness.scratch.join('pool', 'volumes', volume.id, 'volume.json'), 'utf8');
    assert.ok(!stored.includes('secret-'));
    await volume.unpublish();
  });

  test('no list has it, and no name that CreateVolume is given leads to it', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    const listed = await harness.pool.list(undefined, undefined);
    assert.deepEqual(
      listed.filter(({ id }) => id === volume.id),
      [],
    );
    assert.notEqual(volumeIdFor('node', 'test', volume.handle), volume.id);
    await volume.unpublish();
  });

  test('PB05: ten times the same is once, at once too, with other tokens each time', async () => {
    const volume = new InlineVolume();
    await Promise.all(Array.from({ length: 10 }, () => volume.publish()));
    chmodSync(volume.target, 0o700);
    writeFileSync(volume.file('file'), 'kept');
    for (let i = 0; i < 10; i++) await volume.publish();
    assert.equal(harness.mountsAt(volume.target).length, 1);
    assert.equal(volume.read('file'), 'kept');
    assert.equal(statSync(volume.target).mode & 0o7777, 0o700, "what the pod made of it is the pod's");
    await volume.unpublish();
    await assertGone(volume);
  });

  test('PB05: the same after a restart, with and without notes', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    writeFileSync(volume.file('file'), 'kept');
    for (const forgetNotes of [false, true]) {
      await harness.restart({ forgetNotes });
      await volume.publish();
      assert.equal(volume.read('file'), 'kept');
      await rejects(volume.publish({ readonly: true }), 'ALREADY_EXISTS');
      await rejects(volume.publish({}, { size: '33Mi' }), 'ALREADY_EXISTS');
    }
    await harness.restart();
    await volume.unpublish();
    await assertGone(volume);
  });

  describe('PB07: the same target with other arguments', () => {
    const changes: Readonly<Record<string, readonly [Changes, Readonly<Record<string, string>>?]>> = {
      readonly: [{ readonly: true }],
      'another mode': [{ volume_capability: mountCapability('SINGLE_NODE_WRITER') }],
      'other flags of the mount': [{ volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER', ['noatime']) }],
      'other flags of the filesystem': [
        { volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER', ['noauto_da_alloc']) },
      ],
      'another filesystem': [{ volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER', [], 'xfs') }],
      'another size': [{}, { size: '64Mi' }],
      'a repository': [{}, { size: '32Mi', gitRepository: '/srv/x' }],
    };
    for (const [what, [change, attributes]] of Object.entries(changes)) {
      test(what, async () => {
        const volume = new InlineVolume();
        await volume.publish();
        const before = harness.mountsAt(volume.target);
        await rejects(volume.publish(change, attributes), 'ALREADY_EXISTS', /other arguments/);
        assert.deepEqual(harness.mountsAt(volume.target), before);
        await volume.publish();
        await volume.unpublish();
      });
    }
  });

  test('PB08: it has one target', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    const second = `${volume.target}-second`;
    await rejects(volume.publish({ target_path: second }), 'FAILED_PRECONDITION', /in use.*mount at/);
    assert.ok(!existsSync(second));
    await volume.unpublish();
    await volume.publish({ target_path: second });
    await volume.unpublish(second);
    await assertGone(volume);
  });

  test('PB14: read-only', async () => {
    const volume = new InlineVolume();
    await volume.publish({ readonly: true });
    assert.throws(() => writeFileSync(volume.file('file'), 'x'), /EROFS/);
    await volume.publish({ readonly: true });
    await rejects(volume.publish(), 'ALREADY_EXISTS');
    await volume.unpublish();
    await assertGone(volume);
  });

  test('PB20: mount flags are honoured', async () => {
    const volume = new InlineVolume();
    const flags = ['noatime', 'nosuid', 'noauto_da_alloc'];
    await volume.publish({ volume_capability: mountCapability('SINGLE_NODE_WRITER', flags) });
    const [mount] = harness.mountsAt(volume.target);
    assert.deepEqual(new Set(mount?.options), new Set(['rw', 'noatime', 'nosuid']));
    assert.ok(mount?.superOptions.includes('noauto_da_alloc'));
    await volume.unpublish();
    const refused = mountCapability('SINGLE_NODE_WRITER', ['hunter2=1']);
    const message = await rejects(volume.publish({ volume_capability: refused }), 'INVALID_ARGUMENT');
    assert.ok(!message.includes('hunter2'));
    await assertGone(volume);
  });

  test('PB16: an empty directory of the caller is used, and not removed if that fails', async () => {
    const volume = new InlineVolume();
    mkdirSync(volume.target);
    await rejects(volume.publish({}, { size: '1Pi' }), 'RESOURCE_EXHAUSTED');
    assert.ok(existsSync(volume.target));
    await volume.publish();
    await volume.unpublish();
    await assertGone(volume);
  });

  test('PB16 PB18: foreign data, a foreign mount, a symbolic link and a missing parent', async () => {
    const volume = new InlineVolume();
    mkdirSync(volume.target);
    writeFileSync(volume.file('foreign'), 'kept');
    await rejects(volume.publish(), 'ALREADY_EXISTS');
    assert.equal(volume.read('foreign'), 'kept');
    run('mount', '-t', 'tmpfs', 'tmpfs', volume.target);
    await rejects(volume.publish(), 'ALREADY_EXISTS');
    run('umount', volume.target);
    symlinkSync('/tmp', join(volume.pod, 'link'));
    await rejects(volume.publish({ target_path: join(volume.pod, 'link') }), 'INVALID_ARGUMENT');
    await rejects(volume.publish({ target_path: join(volume.pod, 'a', 'b') }), 'FAILED_PRECONDITION');
    assert.equal(await harness.pool.find(volume.id), undefined);
  });

  const refusals: Readonly<Record<string, readonly [Changes, Readonly<Record<string, string>>, string]>> = {
    'an unknown attribute': [{}, { sizes: '1Gi' }, 'INVALID_ARGUMENT'],
    'an unknown pool': [{}, { pool: 'none' }, 'INVALID_ARGUMENT'],
    'a bad size': [{}, { size: 'much' }, 'INVALID_ARGUMENT'],
    'more than the pool has': [{}, { size: '1Pi' }, 'RESOURCE_EXHAUSTED'],
    'more than a volume can have': [{}, { size: '9223372036854775807' }, 'OUT_OF_RANGE'],
    'a block volume': [{ volume_capability: blockCapability() }, {}, 'INVALID_ARGUMENT'],
    'two filesystems': [
      { volume_capability: mountCapability('SINGLE_NODE_WRITER', [], 'xfs') },
      { fsType: 'ext4' },
      'INVALID_ARGUMENT',
    ],
    'an unknown filesystem': [
      { volume_capability: mountCapability('SINGLE_NODE_WRITER', [], 'ntfs') },
      {},
      'FAILED_PRECONDITION',
    ],
    'a mode for many nodes': [
      { volume_capability: mountCapability('MULTI_NODE_MULTI_WRITER') },
      {},
      'FAILED_PRECONDITION',
    ],
    'the id of a volume with a life of its own': [
      { volume_id: volumeIdFor('node', 'test', 'x') },
      {},
      'INVALID_ARGUMENT',
    ],
    'a target that is not allowed': [{ target_path: '/tmp/x' }, {}, 'INVALID_ARGUMENT'],
  };
  for (const [what, [changes, attributes, code]] of Object.entries(refusals)) {
    test(`refused: ${what}`, async () => {
      const volume = new InlineVolume();
      await rejects(volume.publish(changes, attributes), code);
      await assertGone(volume);
    });
  }

  test('its size is at least what its filesystem takes', async () => {
    const volume = new InlineVolume({ size: '1', fsType: 'ext4' });
    await volume.publish();
    assert.equal((await harness.pool.find(volume.id))?.sizeBytes, 16n << 20n);
    await volume.unpublish();
  });

  test('NodeGetVolumeStats tells of it by its handle; NodeStage and NodeExpand know no such volume', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    const { usage, volume_condition } = await volume.stats();
    assert.equal(volume_condition?.abnormal, false);
    const bytes = usage.find(({ unit }) => unit === 'BYTES');
    assert.ok(bytes !== undefined && bytes.total > 16n << 20n && bytes.total <= 32n << 20n);
    const { target } = volume;
    for (const volume_id of [volume.handle, volume.id]) {
      await rejects(harness.node.NodeExpandVolume({ volume_id, volume_path: target }), 'NOT_FOUND');
      const staging = { volume_id, staging_target_path: target, volume_capability: mountCapability() };
      await rejects(harness.node.NodeStageVolume(staging), 'NOT_FOUND');
    }
    await volume.unpublish();
    await rejects(volume.stats(), 'NOT_FOUND');
  });

  test('UP05 UP08: unpublish of handles that nobody knows, and of any text', async () => {
    const volume = new InlineVolume();
    await volume.unpublish();
    mkdirSync(volume.target);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    for (const volume_id of ['x', '../../etc', 'ä'.repeat(64)]) {
      await harness.node.NodeUnpublishVolume({ volume_id, target_path: volume.target });
    }
  });

  test('UP07: unpublish at the target of another volume leaves that alone', async () => {
    const volume = new InlineVolume();
    const other = new InlineVolume();
    await volume.publish();
    await other.publish();
    // It is not gone, so that must not be said.
    await rejects(volume.unpublish(other.target), 'FAILED_PRECONDITION', /mount at /);
    assert.equal(harness.mountsAt(other.target).length, 1);
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await volume.unpublish();
    await other.unpublish();
    await assertGone(volume);
    await assertGone(other);
  });

  test('UP06: who keeps it is named, and it goes when they have gone', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    await using user = await harness.workIn(volume.target);
    await rejects(
      volume.unpublish(),
      'FAILED_PRECONDITION',
      new RegExp(`process \\d+ \\(sleep\\) at ${shortPath(volume.target)}`),
    );
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await user[Symbol.asyncDispose]();
    await volume.unpublish();
    await assertGone(volume);
  });

  test('UP08: unpublished while its pool is not open, it is gone when that is opened', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    await harness.restart({ openPool: () => Promise.reject(new Error('the disk is away')) });
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    await harness.restart();
    await assertGone(volume);
  });

  test('its pool is still being opened: unmounted, and to be tried again', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    let open: (() => void) | undefined;
    const opening = new Promise<void>((resolve) => {
      open = resolve;
    });
    await harness.stop();
    await harness.startWhileOpening(opening);
    await rejects(volume.publish(), 'UNAVAILABLE');
    await rejects(volume.unpublish(), 'UNAVAILABLE');
    assert.ok(!existsSync(volume.target));
    open?.();
    await eventually(async () => void (await volume.unpublish()));
    await assertGone(volume);
  });

  test('T04: what is mounted nowhere at the start is removed, what is mounted stays', async () => {
    const kept = new InlineVolume();
    const lost = new InlineVolume();
    await kept.publish();
    await lost.publish();
    await harness.stop();
    run('umount', lost.target);
    await harness.start();
    assert.equal(await harness.pool.find(lost.id), undefined);
    assert.notEqual(await harness.pool.find(kept.id), undefined);
    await lost.unpublish();
    await assertGone(lost);
    await kept.unpublish();
    await assertGone(kept);
  });

  test('the search for them after a start looks at no image: there may be thousands of volumes', async () => {
    const seen = { isListed: false, isMeasured: false };
    const openPool = async () => {
      const pool = await openTestPool(harness.scratch);
      const [list, measure] = [pool.listEphemeral.bind(pool), pool.usage.bind(pool)];
      pool.listEphemeral = () => {
        seen.isListed = true;
        return list();
      };
      pool.usage = () => {
        seen.isMeasured = true;
        return measure();
      };
      return pool;
    };
    await harness.restart({ openPool });
    await eventually(() => assert.ok(seen.isListed));
    assert.ok(!seen.isMeasured);
    await harness.restart();
  });

  test('T04: what another mount namespace still has is kept at the start, and named', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    await using user = await harness.workElsewhereIn(volume.target);
    await harness.stop();
    run('umount', volume.target);
    await harness.start();
    assert.notEqual(await harness.pool.find(volume.id), undefined);
    await rejects(volume.publish(), 'FAILED_PRECONDITION', /mount at .* for process \d+ \(sleep\)/);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    await user[Symbol.asyncDispose]();
    await eventually(() => assertGone(volume));
  });

  test('UP06 UP08: with a file open in another mount namespace its pod can end; its data goes when it is free', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    writeFileSync(volume.file('file'), 'x');
    await using user = await harness.workElsewhereIn(volume.target);
    for (let i = 0; i < 2; i++) {
      await volume.unpublish();
      assert.ok(!existsSync(volume.target));
      assert.notEqual(await harness.pool.find(volume.id), undefined);
      assert.deepEqual(await harness.pool.list(undefined, undefined), []);
      await rejects(volume.stats(), 'NOT_FOUND');
    }
    // A driver that dies meanwhile finds it again: nobody unpublishes it a second time.
    await harness.restart();
    assert.notEqual(await harness.pool.find(volume.id), undefined);
    await user[Symbol.asyncDispose]();
    await eventually(() => assertGone(volume));
  });

  test('unmounted behind our back, the next publish makes a fresh one', async () => {
    const volume = new InlineVolume();
    await volume.publish();
    writeFileSync(volume.file('file'), 'old');
    run('umount', volume.target);
    await volume.publish();
    assert.deepEqual(readdirSync(volume.target), []);
    await volume.unpublish();
    await assertGone(volume);
  });

  test('20 at once', async () => {
    const volumes = Array.from({ length: 20 }, () => new InlineVolume());
    await Promise.all(volumes.map((volume) => volume.publish()));
    await Promise.all(volumes.map((volume) => volume.unpublish()));
    for (const volume of volumes) await assertGone(volume);
  });
});

describe('an inline volume from a git repository', () => {
  test('has its files', async () => {
    const volume = new InlineVolume({ size: '32Mi', gitRepository: repository.path });
    await volume.publish();
    assert.equal(volume.read('file'), 'two');
    assert.deepEqual(readdirSync(volume.target).sort(), ['.git', 'file', 'link', 'program']);
    assert.equal(statSync(volume.file('file')).uid, 0);
    assert.equal(statSync(volume.target).mode & 0o7777, 0o777);
    await volume.publish();
    await volume.unpublish();
    await assertGone(volume);
  });

  test('of one revision, in one directory, read-only', async () => {
    const gitRepository = `file://${repository.path}`;
    const volume = new InlineVolume({ size: '32Mi', gitRepository, gitRevision: 'v1', gitDirectory: 'site' });
    await volume.publish({ readonly: true });
    assert.deepEqual(readdirSync(volume.target), ['site']);
    assert.equal(volume.read('site/file'), 'one');
    await volume.unpublish();
    await assertGone(volume);
  });

  const failures: Readonly<Record<string, readonly [Readonly<Record<string, string>>, string]>> = {
    'a revision that is not there': [{ gitRevision: 'missing' }, 'INVALID_ARGUMENT'],
    'a repository that is not there': [{ gitRepository: '/srv/missing' }, 'FAILED_PRECONDITION'],
    'nobody there': [{ gitRepository: 'https://localhost:1/x' }, 'UNAVAILABLE'],
    credentials: [{ gitRepository: 'https://user:hunter2@localhost:1/x' }, 'INVALID_ARGUMENT'],
    'an option': [{ gitRevision: '--upload-pack=touch /tmp/x' }, 'INVALID_ARGUMENT'],
    'a way out': [{ gitDirectory: '../x' }, 'INVALID_ARGUMENT'],
  };
  for (const [what, [attributes, code]] of Object.entries(failures)) {
    test(`PB17: ${what}: nothing is left`, async () => {
      const volume = new InlineVolume({ size: '32Mi', gitRepository: repository.path, ...attributes });
      const message = await rejects(volume.publish(), code);
      assert.ok(!message.includes('hunter2'));
      await assertGone(volume);
      await volume.unpublish();
    });
  }

  test('hosts that never answer hold up neither another host nor a local repository', async () => {
    const silent = await SilentServer.start();
    const gitRepository = silent.url;
    const waiting = Array.from({ length: 6 }, () => new InlineVolume({ size: '32Mi', gitRepository }));
    const publishes = waiting.map((volume) => rejects(volume.publish(), 'UNAVAILABLE'));
    try {
      await silent.asked();
      const other = new InlineVolume({ size: '32Mi', gitRepository: 'https://localhost:1/x' });
      await rejects(other.publish(), 'UNAVAILABLE', /cannot be reached/);
      const local = new InlineVolume({ size: '32Mi', gitRepository: repository.path });
      await local.publish();
      assert.equal(local.read('file'), 'two');
      await local.unpublish();
    } finally {
      // All of them, and whoever comes then.
      silent.refuse();
      await Promise.all(publishes);
    }
    for (const volume of waiting) await assertGone(volume);
  });

  test('PB17: too much for the volume: nothing is left', async () => {
    const large = new GitRepository(repositories.path, 'large');
    large.commit({ large: Buffer.alloc(40 << 20, 'not compressed any more') });
    const volume = new InlineVolume({ size: '32Mi', gitRepository: large.path });
    await rejects(volume.publish(), 'RESOURCE_EXHAUSTED', /size/);
    await assertGone(volume);
  });
});
