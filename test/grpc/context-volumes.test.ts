import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { NodeKind, NodeSide } from '../../src/pool/node-side.ts';
import { InvalidArgument, Unavailable } from '../../src/volume/errors.ts';
import { ContextHarness } from '../support/context-harness.ts';
import { exportKind, lunKind } from '../support/context-kinds.ts';
import { Frozen } from '../support/frozen.ts';
import { blockCapability, mountCapability } from '../support/node-volume.ts';
import { refused } from '../support/refused.ts';

/* Volumes that a node knows from volume_context alone, as a person writes it into a PersistentVolume. */

let harness: ContextHarness;
let source: string;

beforeEach(async () => {
  harness = await ContextHarness.open();
  source = execFileSync('losetup', ['--find', '--show', harness.image('export.img')], { encoding: 'utf8' }).trim();
});
afterEach(() => harness[Symbol.asyncDispose]());

const shared = mountCapability('MULTI_NODE_MULTI_WRITER', [], 'nfs');

describe('a volume of a context', () => {
  for (const handle of ['an export', '../../etc/passwd', 'server##share##', 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa']) {
    test(`is staged and published under the handle ${handle}, and nothing of it is left`, async () => {
      const volume = harness.volume(handle, shared);
      const volume_context = { kind: 'export', version: '1', source };
      await volume.stage({ volume_context });
      await volume.stage({ volume_context });
      await volume.publish({ volume_context });
      writeFileSync(join(volume.target, 'file'), 'data');
      const { usage, volume_condition } = await volume.stats();
      assert.equal(volume_condition?.message, 'here answers.');
      assert.ok(usage.some(({ total, unit }) => unit === 'BYTES' && total > 0n));
      assert.deepEqual(harness.notes()[0]?.paths, [volume.staging, volume.target]);
      await volume.down();
      await volume.down();
      assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
      assert.ok(!existsSync(volume.target));
    });
  }

  test('has what Kubernetes adds to its context', async () => {
    const volume = harness.volume('a', shared);
    await volume.stage({ volume_context: { source, 'csi.storage.k8s.io/pod.name': 'x' } });
    await volume.unstage();
  });

  test('is published several times, and another PersistentVolume with the same data is another volume', async () => {
    const one = harness.volume('one', shared);
    const other = harness.volume('other', shared);
    const volume_context = { source };
    for (const volume of [one, other]) {
      await volume.stage({ volume_context });
      await volume.publish({ volume_context });
    }
    await refused(other.stage({ volume_context, staging_target_path: one.staging }), 'ALREADY_EXISTS', /volume one is/);
    const second = join(one.pod, 'second');
    await one.publish({ volume_context, target_path: second });
    writeFileSync(join(one.target, 'file'), 'data');
    assert.equal(readFileSync(join(other.target, 'file'), 'utf8'), 'data');
    await refused(one.unstage(), 'FAILED_PRECONDITION', /still published/);
    await one.unpublish(second);
    await one.down();
    assert.deepEqual(harness.mounts(), [other.staging, other.target]);
    await other.stats();
    await other.down();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('is unpublished and unstaged by a driver that was started since', async () => {
    const volume = harness.volume('a', shared);
    await volume.stage({ volume_context: { source } });
    await volume.publish({ volume_context: { source } });
    await harness.restart();
    await volume.stats();
    await volume.down();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('is unstaged after a reboot, when nothing of it is mounted', async () => {
    const volume = harness.volume('a', shared);
    await volume.stage({ volume_context: { source } });
    await harness.stop();
    execFileSync('umount', [volume.staging]);
    await harness.start();
    await volume.down();
    assert.deepEqual(harness.notes(), []);
  });

  test('is one volume: its handle with another context is refused while it is in use, and only then', async () => {
    const volume = harness.volume('a', shared);
    await volume.stage({ volume_context: { source } });
    const volume_context = { source, server: 'elsewhere' };
    await refused(volume.stage({ volume_context }), 'FAILED_PRECONDITION', /other volumeAttributes \(server\)/);
    await refused(volume.publish({ volume_context }), 'FAILED_PRECONDITION', /other volumeAttributes \(server\)/);
    execFileSync('umount', [volume.staging]);
    await volume.stage({ volume_context });
    await volume.down();
    assert.deepEqual(harness.notes(), []);
  });

  test('leaves no note if it cannot be mounted', async () => {
    const volume = harness.volume('a', shared);
    await assert.rejects(volume.stage({ volume_context: { source: '/dev/holdfast-none' } }));
    assert.deepEqual(harness.notes(), []);
    await volume.stage({ volume_context: { source } });
    await volume.unstage();
  });

  const mistakes: Readonly<Record<string, readonly [Record<string, string>, RegExp]>> = {
    'no context': [{}, /say not which kind/],
    'a key that is misspelled': [{ source: '/dev/null', sorce: 'x' }, /"sorce".*did you mean 'source'/],
    'a kind that is not there': [{ kind: 'nfs', source: 'x' }, /kind "nfs" is not known/],
    'a later version': [{ version: '2', source: 'x' }, /update the driver/],
  };
  for (const [what, [volume_context, message]] of Object.entries(mistakes)) {
    test(`refused: ${what}`, async () => {
      await refused(harness.volume('a', shared).stage({ volume_context }), 'INVALID_ARGUMENT', message);
      assert.deepEqual(harness.notes(), []);
    });
  }

  test('nothing is known of one that is not in use', async () => {
    const volume = harness.volume('a', shared);
    await refused(volume.expand(1n << 30n), 'NOT_FOUND', /not in use on this node/);
    await volume.down();
  });

  test('a pod has no inline volumes where there are no pools', async () => {
    const volume = harness.volume('a', shared);
    const volume_context = { 'csi.storage.k8s.io/ephemeral': 'true' };
    await refused(volume.publish({ volume_context }), 'INVALID_ARGUMENT', /inline volumes/);
  });
});

describe('a device of a context', () => {
  const loopsOver = (image: string) =>
    execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', image], { encoding: 'utf8' }).trim();

  test('is attached while it is staged, and grows', async () => {
    const image = harness.image('lun.img', 'xfs');
    const volume = harness.volume('iqn.2026-01.org.example:target/1', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.stage({ volume_context: { image } });
    await volume.publish({ volume_context: { image } });
    assert.notEqual(loopsOver(image), '');
    execFileSync('truncate', ['--size', '640M', image]);
    assert.deepEqual(await volume.expand(640n << 20n), { capacity_bytes: 640n << 20n });
    const [{ total } = { total: 0n }] = (await volume.stats()).usage;
    assert.ok(total > 500n << 20n);
    await volume.down();
    assert.deepEqual([loopsOver(image), harness.notes(), harness.mounts()], ['', [], []]);
  });

  test('is shown as a raw block device in a file that its handle cannot name', async () => {
    const image = harness.image('lun.img');
    const volume = harness.volume('../../x/y', blockCapability());
    await volume.stage({ volume_context: { image } });
    await volume.publish({ volume_context: { image } });
    assert.match(harness.mounts()[0] ?? '', /\/pv-[a-z2-7]{26}$/);
    await harness.restart();
    await volume.down();
    assert.deepEqual([loopsOver(image), harness.notes(), harness.mounts()], ['', [], []]);
  });

  for (const fsType of ['ext4', 'xfs'] as const) {
    test(`is refused if it is write-protected, and used where that is for reading alone: ${fsType}`, async () => {
      const image = harness.image('lun.img', fsType);
      const volume_context = { image };
      const protect = () => execFileSync('losetup', ['--read-only', '--find', image]);
      protect();
      const writer = harness.volume('writer', mountCapability('SINGLE_NODE_WRITER', [], fsType));
      await refused(
        writer.stage({ volume_context }),
        'FAILED_PRECONDITION',
        /^volume writer: its device is write-prot/,
      );
      assert.deepEqual([loopsOver(image), harness.notes(), harness.mounts()], ['', [], []]);

      // Larger than its filesystem, which cannot grow here.
      execFileSync('truncate', ['--size', '640M', image]);
      protect();
      const reader = harness.volume('reader', mountCapability('SINGLE_NODE_WRITER', ['ro'], fsType));
      await reader.up(volume_context);
      await reader.stage({ volume_context });
      assert.equal((await reader.stats()).volume_condition?.abnormal, false);
      assert.throws(() => writeFileSync(join(reader.target, 'file'), ''), /EROFS/);
      await reader.down();
      assert.deepEqual([loopsOver(image), harness.notes(), harness.mounts()], ['', [], []]);
    });
  }

  test('is refused as a raw block device for writers if it is write-protected', async () => {
    const image = harness.image('lun.img');
    const volume_context = { image };
    const protect = () => execFileSync('losetup', ['--read-only', '--find', image]);
    protect();
    const volume = harness.volume('raw', blockCapability());
    await volume.stage({ volume_context });
    await refused(
      volume.publish({ volume_context }),
      'FAILED_PRECONDITION',
      /^volume raw: its device is write-protected/,
    );
    await volume.publish({ volume_context, readonly: true });
    await volume.publish({ volume_context, readonly: true });
    await volume.down();
    assert.deepEqual([loopsOver(image), harness.notes(), harness.mounts()], ['', [], []]);
  });

  test('has nothing in the log of its XFS about a size that is not on the device', async () => {
    const image = harness.image('lun.img', 'xfs');
    const volume = harness.volume('a', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
    await volume.stage({ volume_context: { image } });
    await volume.publish({ volume_context: { image } });
    execFileSync('truncate', ['--size', '640M', image]);
    await volume.expand(640n << 20n);
    // sb_blocksize and sb_dblocks of the superblock, which XFS writes when its log is emptied.
    const superblock = readFileSync(image).subarray(0, 512);
    assert.equal(superblock.readBigUInt64BE(8) * BigInt(superblock.readUInt32BE(4)), 640n << 20n);
    assert.deepEqual(readdirSync(harness.scratch.join('data', 'frozen')), []);
    await volume.down();
  });

  test('is thawed by the next driver if one died while it had its filesystem frozen, and by nobody else', async () => {
    const image = harness.image('lun.img');
    const volume = harness.volume('a', mountCapability());
    await volume.stage({ volume_context: { image } });
    await volume.publish({ volume_context: { image } });
    await harness.stop();
    {
      using frozen = await Frozen.byDriver(harness.scratch, volume.id, volume.staging, '@servers');
      await harness.start();
      frozen.assertThawed();
    }
    await harness.stop();
    {
      using frozen = Frozen.byHook(volume.staging);
      await harness.start();
      frozen.thaw();
    }
    await volume.down();
    assert.deepEqual([loopsOver(image), harness.notes()], ['', []]);
  });

  test('is detached by the next unstage if a driver died before it', async () => {
    const image = harness.image('lun.img');
    const volume = harness.volume('a', mountCapability());
    await volume.stage({ volume_context: { image } });
    await harness.stop();
    execFileSync('umount', [volume.staging]);
    await harness.start();
    await volume.unstage();
    assert.deepEqual([loopsOver(image), harness.notes()], ['', []]);
  });
});

describe('two PersistentVolumes that name one disk', () => {
  const once = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');

  test('are used one at a time, also by a driver that was started since', async () => {
    const volume_context = { image: harness.image('lun.img') };
    const [first, second] = [harness.volume('first', once), harness.volume('second', once)];
    await first.stage({ volume_context });
    const words =
      /^volume second is the same disk as volume first, which is in use on this node at .*: end that use first/;
    await refused(second.stage({ volume_context }), 'FAILED_PRECONDITION', words);
    await harness.restart();
    await refused(second.stage({ volume_context }), 'FAILED_PRECONDITION', words);
    await second.unstage();
    await first.publish({ volume_context });
    assert.equal((await first.stats()).volume_condition?.abnormal, false);
    await first.down();
    await second.stage({ volume_context });
    await second.unstage();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('are not both used if the second comes while the first is on its way', async () => {
    const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow: NodeKind = {
      ...lunKind,
      async open(context) {
        const side = await lunKind.open(context);
        return {
          ...side,
          async attach(...call) {
            reached.resolve();
            await gate.promise;
            return await side.attach(...call);
          },
        };
      },
    };
    await harness.restart([slow]);
    const volume_context = { image: harness.image('lun.img') };
    const [first, second] = [harness.volume('first', once), harness.volume('second', once)];
    const staged = first.stage({ volume_context });
    await reached.promise;
    const stage = second.stage({ volume_context });
    try {
      await refused(stage, 'FAILED_PRECONDITION', /^volume second is the same disk as volume first/);
    } finally {
      gate.resolve();
    }
    await staged;
    await first.unstage();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });
});

test('a disk that is encrypted is not mounted as another one, and the attribute is named that opens it', async () => {
  const image = harness.image('lun.img');
  const format = ['--batch-mode', '--disable-locks', '--key-file', '-', 'luksFormat', '--type', 'luks2'];
  const quick = ['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000'];
  execFileSync('cryptsetup', [...format, ...quick, image], { input: 'correct horse' });
  const volume = harness.volume('encrypted', mountCapability('SINGLE_NODE_WRITER', [], 'ext4'));
  const words = /^volume encrypted: its device is encrypted, and .*: add encryption: luks2 to volumeAttributes/;
  await refused(volume.stage({ volume_context: { image } }), 'FAILED_PRECONDITION', words);
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
});

describe('a volume that this version of the driver cannot read', () => {
  const once = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');

  test('of a kind that it does not know: its mounts end, and it stays noted as attached', async () => {
    const image = harness.image('lun.img');
    const volume = harness.volume('a', once);
    const volume_context = { image };
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    await harness.restart([exportKind]);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    await refused(volume.unstage(), 'UNAVAILABLE', /is of kind lun, which this driver does not know/);
    assert.equal(harness.notes().length, 1);
    await harness.restart([exportKind, lunKind]);
    await volume.unstage();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('with a note that is damaged: nothing says that it is free', async () => {
    const volume = harness.volume('a', shared);
    const volume_context = { kind: 'export', source };
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    const [name] = readdirSync(harness.scratch.join('data', 'volumes'));
    const path = harness.scratch.join('data', 'volumes', name ?? '');
    const note = readFileSync(path, 'utf8');
    writeFileSync(path, note.slice(0, -20));
    await harness.restart();
    await refused(volume.unpublish(), 'UNAVAILABLE', /its note .* cannot be read/);
    await refused(volume.unstage(), 'UNAVAILABLE', /its note .* cannot be read/);
    assert.ok(harness.mounts().includes(volume.staging));
    // As a newer driver may write it.
    writeFileSync(path, note.replace('{', '{ "more": 1,'));
    await harness.restart();
    await volume.down();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('a mount at its path that is not known to be its own is none that may be forgotten', async () => {
    const volume = harness.volume('a', shared);
    const volume_context = { kind: 'export', source };
    await volume.stage({ volume_context });
    const blind: NodeKind = {
      ...exportKind,
      shows: () => undefined,
      open: async (context) => ({ ...(await exportKind.open(context)), attached: async () => [] }),
    };
    await harness.restart([blind, lunKind]);
    await refused(
      volume.unstage(),
      'UNAVAILABLE',
      /still has a mount at .*, which this driver cannot tell to be its own/,
    );
    assert.equal(harness.notes().length, 1);
    await harness.restart([exportKind, lunKind]);
    await volume.unstage();
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
  });

  test('hinders no other volume of its kind', async () => {
    const [one, other] = ['a', 'b'].map((handle) => harness.volume(handle, shared));
    assert.ok(one !== undefined && other !== undefined);
    const volume_context = { kind: 'export', source };
    await one.stage({ volume_context });
    await other.stage({ volume_context: { ...volume_context, server: 'there' } });
    const refuse = () => {
      throw new InvalidArgument('an unknown key');
    };
    const strict: NodeKind = {
      ...exportKind,
      serverOf: (volume) => (volume.context['server'] === 'there' ? refuse() : exportKind.serverOf(volume)),
      shows: (volume, seen) => (volume.context['server'] === 'there' ? refuse() : exportKind.shows(volume, seen)),
    };
    await harness.restart([strict, lunKind]);
    await one.unstage();
    assert.deepEqual(
      harness.notes().map(({ handle }) => handle),
      ['b'],
    );
    await harness.restart([exportKind, lunKind]);
    await other.unstage();
  });
});

test('a stage that fails and cannot be undone is one that the kubelet unstages', async () => {
  const image = harness.image('lun.img');
  let isAway = true;
  const away = async () => {
    if (isAway) throw new Unavailable('the server is away.');
  };
  const leaving: NodeKind = {
    ...lunKind,
    async open(context) {
      const side = await lunKind.open(context);
      const detach: NodeSide['detach'] = async (...given) => {
        await away();
        await side.detach?.(...given);
      };
      return { ...side, detach };
    },
  };
  await harness.restart([exportKind, leaving]);
  // Its filesystem is another one than asked for, which is an error that the kubelet takes for final.
  const volume = harness.volume('a', mountCapability('SINGLE_NODE_WRITER', [], 'xfs'));
  await refused(
    volume.stage({ volume_context: { image } }),
    'UNAVAILABLE',
    /could not be undone: .*the server is away/,
  );
  isAway = false;
  await volume.unstage();
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
});
