import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import type { ContextHarness } from '../support/context-harness.ts';
import { detachLoopDevice, loopsOver } from '../support/left-behind.ts';
import { blockCapability, mountCapability, type TestVolume } from '../support/node-volume.ts';
import { openExecHarness, ProgramDirectory } from '../support/programs.ts';
import { refusedBriefly as refused } from '../support/refused.ts';
import { Scratch } from '../support/scratch.ts';

/* FlexVolume drivers, written after the public specification, run unchanged. */

const directory = new ProgramDirectory();
let harness: ContextHarness;

/** A driver whose calls fail if the file `trouble` has them. It notes its calls. `named` detaches by name. */
function troubled() {
  const disk = directory.example('disk');
  const script = `here=$(dirname "$0"); echo "$1" >>"$here/trace"
for verb in $(cat "$here/trouble"); do
  [ "$verb" != "$1" ] || { echo '{"status":"Failure","message":"the server does not answer"}'; exit 1; }
done
[ "$1" != attach ] || ${disk} "$@" >"$here/attached"
[ "$1" != detach ] || [ "$2" != pv-1 ] || set detach "$(sed 's/.*device":"//; s/".*//' "$here/attached")"
exec ${disk} "$@"`;
  const path = directory.script('troubled', script);
  return [
    { name: 'troubled', path, presents: 'device' },
    { name: 'named', path, presents: 'device', detachBy: 'name' },
  ] as const;
}

beforeEach(async () => {
  harness = await openExecHarness([
    { name: 'tmpfs', path: directory.example('tmpfs') },
    { name: 'open', path: directory.example('tmpfs'), secretsInArguments: true },
    { name: 'loop', path: directory.example('loop') },
    { name: 'disk', path: directory.example('disk'), presents: 'device' },
    ...troubled(),
  ]);
});
afterEach(() => harness[Symbol.asyncDispose]());
after(() => directory[Symbol.dispose]());

function nothingIsLeft(): void {
  assert.deepEqual([harness.mounts(), harness.notes(), loopsOver(harness.scratch.path)], [[], [], []]);
  assert.deepEqual(readdirSync(harness.scratch.join('data', 'exec')), ['locks']);
}

const shared = mountCapability('MULTI_NODE_MULTI_WRITER');

describe('a driver that mounts', () => {
  const volume_context = { kind: 'exec', program: 'tmpfs', 'options.size': '2M' };

  test('is staged, published twice, and undone, each call also a second time', async () => {
    const volume = harness.volume('pv-1', shared);
    await volume.stage({ volume_context });
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    await volume.publish({ volume_context });
    const second = join(volume.pod, 'second');
    await volume.publish({ volume_context, target_path: second });
    writeFileSync(join(volume.target, 'file'), 'data');
    assert.equal(readFileSync(join(second, 'file'), 'utf8'), 'data');
    assert.equal(statfsSync(second).blocks * statfsSync(second).bsize, 2 << 20);
    const { usage, volume_condition } = await volume.stats();
    assert.equal(volume_condition?.abnormal, false);
    assert.ok(usage.some(({ total, unit }) => unit === 'BYTES' && total === 2n << 20n));
    await refused(volume.unstage(), 'FAILED_PRECONDITION', /still published/);
    await harness.restart();
    await volume.unpublish(second);
    await volume.down();
    await volume.down();
    nothingIsLeft();
  });

  test('gets the options and keys that the kubelet passed', async () => {
    const volume = harness.volume('pv-1', shared);
    await volume.stage({
      volume_context: { ...volume_context, fsType: 'ext4', readOnly: 'true', 'options.a.b/c': 'd e"f' },
    });
    assert.deepEqual(JSON.parse(readFileSync(join(volume.staging, '.options'), 'utf8')), {
      'kubernetes.io/fsType': 'ext4',
      'kubernetes.io/readwrite': 'ro',
      'kubernetes.io/pvOrVolumeName': 'pv-1',
      'kubernetes.io/mountsDir': harness.scratch.join('kubelet', 'programs'),
      size: '2M',
      'a.b/c': 'd e"f',
    });
    await volume.unstage();
    nothingIsLeft();
  });

  test('is the same where the kubelet directory is a symbolic link', async () => {
    const scratch = new Scratch('exec');
    mkdirSync(scratch.join('real'));
    symlinkSync('real', scratch.join('kubelet'));
    await using linked = await openExecHarness([{ name: 'tmpfs', path: directory.example('tmpfs') }], { scratch });
    const volume = linked.volume('pv-a', shared);
    await volume.stage({ volume_context });
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    await volume.down();
    assert.deepEqual([linked.mounts(), linked.notes()], [[], []]);
  });

  test('gets secrets in its arguments only where the configuration allows it', async () => {
    const volume = harness.volume('pv-1', shared);
    const secrets = { user: 'maria', password: 'topsecret' };
    await refused(volume.stage({ volume_context, secrets }), 'FAILED_PRECONDITION', /secretsInArguments: true/);
    nothingIsLeft();
    const allowed = { ...volume_context, program: 'open' };
    await volume.stage({ volume_context: allowed, secrets });
    const options = JSON.parse(readFileSync(join(volume.staging, '.options'), 'utf8'));
    assert.equal(options['kubernetes.io/secret/password'], Buffer.from('topsecret').toString('base64'));
    for (const name of readdirSync(harness.scratch.join('data'), { recursive: true, encoding: 'utf8' })) {
      const path = harness.scratch.join('data', name);
      const text = execFileSync('sh', ['-c', 'test -d "$1" || cat "$1"', 'sh', path], { encoding: 'utf8' });
      assert.doesNotMatch(text, /topsecret|dG9wc2VjcmV0/, path);
    }
    await volume.unstage();
  });

  test('fails in its own words', async () => {
    const volume = harness.volume('pv-1', shared);
    const wrong = { ...volume_context, 'options.size': 'rubbish' };
    await refused(
      volume.stage({ volume_context: wrong }),
      'UNAVAILABLE',
      /volume pv-1: program tmpfs failed in mount: tmpfs of rubbish/,
    );
    nothingIsLeft();
  });

  test('has two volumes, which are two', async () => {
    const [one, other] = [harness.volume('one', shared), harness.volume('other', shared)];
    for (const volume of [one, other]) {
      await volume.stage({ volume_context });
      await volume.publish({ volume_context });
      writeFileSync(join(volume.target, 'file'), volume.id);
    }
    assert.equal(readFileSync(join(one.target, 'file'), 'utf8'), 'one');
    await one.down();
    assert.equal(readFileSync(join(other.target, 'file'), 'utf8'), 'other');
    await other.down();
    nothingIsLeft();
  });

  test('has no raw block volumes, and no other program is run for it', async () => {
    const volume = harness.volume('pv-1', blockCapability());
    await refused(volume.stage({ volume_context }), 'INVALID_ARGUMENT', /presents a directory/);
    const unknown = { ...volume_context, program: 'tmpf' };
    await refused(
      harness.volume('pv-2', shared).stage({ volume_context: unknown }),
      'INVALID_ARGUMENT',
      /did you mean/i,
    );
    const path = { ...volume_context, program: '/bin/true' };
    await refused(
      harness.volume('pv-2', shared).stage({ volume_context: path }),
      'INVALID_ARGUMENT',
      /program: must be a word/,
    );
    nothingIsLeft();
  });
});

describe('a driver that attaches and mounts a device', () => {
  test('is staged, published, grown and undone, also by a driver that starts in between', async () => {
    const image = harness.image('a.img', 'xfs');
    const volume_context = { kind: 'exec', program: 'loop', 'options.image': image };
    const volume = harness.volume('pv-1', mountCapability());
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    writeFileSync(join(volume.target, 'file'), 'data');
    assert.equal(loopsOver(harness.scratch.path).length, 1);
    truncateSync(image, 400 << 20);
    await volume.expand(400n << 20n);
    assert.ok(statfsSync(volume.target).blocks * statfsSync(volume.target).bsize > 300 << 20);
    await harness.restart();
    await volume.stage({ volume_context });
    assert.equal((await volume.stats()).volume_condition?.abnormal, false);
    await volume.down();
    nothingIsLeft();
    await volume.stage({ volume_context });
    assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'data');
    await volume.unstage();
    nothingIsLeft();
  });

  test('is never shown by the mount of its device where its own mount is gone: that may show more', async () => {
    const own = 'mount --bind "$(dirname "$2")/device/sub" "$2" && echo \'{"status":"Success"}\'';
    const path = directory.script(
      'sub',
      `case "$1" in mount) ${own};; *) exec ${directory.example('loop')} "$@";; esac`,
    );
    await using parts = await openExecHarness([{ name: 'sub', path }]);
    const image = parts.image('parts.img');
    const whole = parts.scratch.join('whole');
    mkdirSync(whole);
    execFileSync('mount', ['-o', 'loop', image, whole]);
    mkdirSync(join(whole, 'sub'));
    writeFileSync(join(whole, 'sub', 'mine'), '');
    writeFileSync(join(whole, 'of-others'), '');
    execFileSync('umount', [whole]);
    const volume_context = { kind: 'exec', program: 'sub', 'options.image': image };
    const volume = parts.volume('pv-parts', shared);
    await volume.stage({ volume_context });
    assert.deepEqual(readdirSync(volume.staging), ['mine']);
    const mount = parts.mounts().find((each) => each.endsWith('/mount')) ?? assert.fail();
    execFileSync('umount', [volume.staging]);
    execFileSync('umount', [mount]);
    await volume.stage({ volume_context });
    assert.deepEqual(readdirSync(volume.staging), ['mine']);
    await volume.publish({ volume_context });
    await volume.down();
    assert.deepEqual([parts.mounts(), parts.notes(), loopsOver(parts.scratch.path)], [[], [], []]);
  });

  test('is undone though its note is lost', async () => {
    const image = harness.image('lost.img');
    const volume_context = { kind: 'exec', program: 'loop', 'options.image': image };
    const volume = harness.volume('pv-lost', shared);
    await volume.stage({ volume_context });
    await harness.stop();
    const notes = harness.scratch.join('data', 'exec');
    for (const name of readdirSync(notes).filter((each) => each.endsWith('.json'))) rmSync(join(notes, name));
    const { scratch } = harness;
    const again = await openExecHarness([{ name: 'loop', path: directory.example('loop') }], { scratch });
    const unstage = { volume_id: 'pv-lost', staging_target_path: volume.staging };
    // Nothing tells any more that the mount is the volume's. But it is at its path: so it is not told to be free.
    await refused(again.node.NodeUnstageVolume(unstage), 'UNAVAILABLE', /still has a mount at/);
    execFileSync('umount', [volume.staging]);
    await again.node.NodeUnstageVolume(unstage);
    assert.deepEqual([again.mounts(), again.notes(), loopsOver(scratch.path)], [[], [], []]);
    await again.stop();
  });

  test('has no device that is another volume, and says which', async () => {
    const volume_context = { kind: 'exec', program: 'loop', 'options.image': harness.image('a.img') };
    const [one, other] = [harness.volume('one', mountCapability()), harness.volume('other', mountCapability())];
    await one.stage({ volume_context });
    await refused(
      other.stage({ volume_context }),
      'FAILED_PRECONDITION',
      /has attached \/dev\/loop\d+, which is volume one/,
    );
    const isDetached = (device: string) =>
      execFileSync('losetup', ['--noheadings', '--output', 'AUTOCLEAR', device], { encoding: 'utf8' }).trim();
    const states = loopsOver(harness.scratch.path).map(isDetached);
    assert.deepEqual(states, ['0'], 'the device of the first was let go of');
    writeFileSync(join(one.staging, 'file'), 'data');
    await one.unstage();
    nothingIsLeft();
  });
});

describe('a volume of which it is not known what is attached', () => {
  const trace = () => readFileSync(join(directory.path, 'trace'), 'utf8').trim().split('\n');
  const setTrouble = (trouble: string) => writeFileSync(join(directory.path, 'trouble'), trouble);
  beforeEach(() => setTrouble(''));

  /** The driver was killed between attach and the note about its device. */
  async function attachedAndKilled(program: string): Promise<TestVolume> {
    const volume_context = { kind: 'exec', program, 'options.image': harness.image('a.img') };
    const volume = harness.volume('pv-1', mountCapability());
    await volume.stage({ volume_context });
    execFileSync('umount', [volume.staging]);
    const notes = harness.scratch.join('data', 'exec');
    for (const name of readdirSync(notes).filter((each) => each.endsWith('.json'))) {
      const { device: _device, ...note } = JSON.parse(readFileSync(join(notes, name), 'utf8'));
      writeFileSync(join(notes, name), JSON.stringify({ ...note, state: 'begun' }));
    }
    await harness.stop();
    harness = await openExecHarness(troubled(), { scratch: harness.scratch });
    writeFileSync(join(directory.path, 'trace'), '');
    return harness.volume('pv-1', mountCapability());
  }

  for (const program of ['troubled', 'named']) {
    test(`${program} is detached only if its program says so`, async () => {
      const volume = await attachedAndKilled(program);
      setTrouble('attach detach isattached');
      await refused(volume.unstage(), 'UNAVAILABLE', /failed in (attach|detach): the server does not answer/);
      assert.equal(loopsOver(harness.scratch.path).length, 1);
      setTrouble('isattached');
      await volume.unstage();
      nothingIsLeft();
    });

    test(`${program} is not attached to be detached, if the program can do without`, async () => {
      const volume = await attachedAndKilled(program);
      if (program === 'troubled') for (const loop of loopsOver(harness.scratch.path)) detachLoopDevice(loop);
      await volume.unstage();
      assert.ok(trace().includes('isattached'));
      assert.ok(!trace().includes('attach'), trace().join());
      nothingIsLeft();
    });
  }
});

test('a device that is another volume is not detached by the name of the volume that did not get it', async () => {
  writeFileSync(join(directory.path, 'trouble'), '');
  writeFileSync(join(directory.path, 'trace'), '');
  const volume_context = { kind: 'exec', program: 'named', 'options.image': harness.image('a.img') };
  const [one, other] = [harness.volume('pv-1', mountCapability()), harness.volume('pv-2', mountCapability())];
  await one.stage({ volume_context });
  await refused(other.stage({ volume_context }), 'FAILED_PRECONDITION', /which is volume pv-1 already/);
  assert.doesNotMatch(readFileSync(join(directory.path, 'trace'), 'utf8'), /^detach/m);
  await one.unstage();
  nothingIsLeft();
});

test('a device that is another volume is not detached for one of which it is not known what is attached', async () => {
  const setTrouble = (trouble: string) => writeFileSync(join(directory.path, 'trouble'), trouble);
  setTrouble('');
  writeFileSync(join(directory.path, 'trace'), '');
  const volume_context = { kind: 'exec', program: 'troubled', 'options.image': harness.image('a.img') };
  const [one, other] = [harness.volume('pv-1', mountCapability()), harness.volume('pv-2', mountCapability())];
  await one.stage({ volume_context });
  setTrouble('waitforattach');
  await refused(other.stage({ volume_context }), 'UNAVAILABLE', /failed in waitforattach/);
  setTrouble('');
  await other.unstage();
  assert.doesNotMatch(readFileSync(join(directory.path, 'trace'), 'utf8'), /^detach/m);
  await one.unstage();
  nothingIsLeft();
});

describe('a driver that only attaches', () => {
  const block = blockCapability();

  for (const fsType of ['ext4', 'xfs'] as const) {
    test(`has ${fsType} that the node mounts, grows and unmounts`, async () => {
      const image = harness.image('a.img', fsType);
      const volume_context = { kind: 'exec', program: 'disk', 'options.image': image };
      const volume = harness.volume('pv-1', mountCapability('SINGLE_NODE_WRITER', [], fsType));
      await volume.stage({ volume_context });
      await volume.publish({ volume_context });
      truncateSync(image, 400 << 20);
      const growing = volume.expand(400n << 20n);
      // This machine may lack what a mounted ext4 needs to grow.
      if (fsType === 'ext4') await growing.catch((error) => assert.match(String(error), /CAP_SYS_RESOURCE/));
      else await growing;
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
      await harness.restart();
      await volume.down();
      nothingIsLeft();
    });
  }

  test('has raw block volumes', async () => {
    const volume_context = { kind: 'exec', program: 'disk', 'options.image': harness.image('a.img') };
    const volume = harness.volume('pv-1', block);
    await volume.stage({ volume_context });
    await volume.publish({ volume_context });
    assert.equal(
      execFileSync('blkid', ['-po', 'value', '-s', 'TYPE', volume.target], { encoding: 'utf8' }).trim(),
      'ext4',
    );
    await volume.down();
    nothingIsLeft();
  });

  test('is never formatted', async () => {
    const image = harness.scratch.join('blank');
    writeFileSync(image, '');
    truncateSync(image, 64 << 20);
    const volume = harness.volume('pv-1', mountCapability('SINGLE_NODE_WRITER', [], 'ext4'));
    const volume_context = { kind: 'exec', program: 'disk', 'options.image': image };
    await assert.rejects(volume.stage({ volume_context }), /blank|holds|filesystem/);
    nothingIsLeft();
  });
});
