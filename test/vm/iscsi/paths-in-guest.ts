/** Runs in the virtual machine: volumes on a target with two portals, on a node with multipathd. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { scanLun } from '../../../src/kernel/block/iscsi.ts';
import { multipathMapOver } from '../../../src/kernel/block/multipath.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { sysfsNames, sysfsText } from '../../../src/kernel/file/sysfs.ts';
import { iscsiNodeKind } from '../../../src/pool/kinds/iscsi/kind.ts';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { blockCapability, mountCapability, type TestVolume } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import { directory, endSessions, iqn, nothingKept, sessions, target } from './guest.ts';

const [first, second, third] = ['127.0.0.1', '10.99.0.1', '10.99.0.2'];
type Context = Readonly<Record<string, string>>;
const contextOf = (lun: string, more: Context = {}): Context => {
  return { kind: 'iscsi', iqn, portals: `${first},${second}`, lun, ...more };
};

const names = () => sessions().flatMap(({ luns }) => luns.map(({ name }) => name));
/** For each map the paths in it. */
const maps = () => {
  const found = sysfsNames('/sys/block').filter((name) => sysfsText(`/sys/block/${name}/dm/uuid`)?.includes('mpath-'));
  return found.map((name) => [...sysfsNames(`/sys/block/${name}/slaves`)].sort());
};
const xfs = mountCapability('SINGLE_NODE_WRITER', [], 'xfs');
const ext4 = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');
const longMs = 120_000;
/** A part of multipath.conf that multipathd's own entry for a target does not override, as it does the defaults. */
const always = (line: string) => ['}', 'overrides {', line];

let harness: ContextHarness;

before(() => {
  target('make');
  target('second-up');
  target('backing', directory, 'first', 'xfs');
  target('backing', directory, 'second', 'ext4');
  target('map', '1', 'first');
  target('map', '2', 'second');
});
beforeEach(async () => {
  harness = await ContextHarness.open([iscsiNodeKind]);
});
afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await endSessions();
  await eventually(() => void execFileSync('multipath', ['-F'], { stdio: 'pipe' }));
});

async function nothingLeft(): Promise<void> {
  await eventually(() => assert.deepEqual([sessions(), maps()], [[], []]), longMs);
  await nothingKept(harness);
}

const condition = async (volume: TestVolume) => (await volume.stats()).volume_condition?.message ?? '';

/** All portals of a volume in use are lost: it is let go, and has what was acknowledged when they are back. */
async function losesBoth(volume: TestVolume, volume_context: Context, secrets: Context = {}): Promise<void> {
  await volume.up(volume_context, secrets);
  assert.equal(maps().length, 1);
  const path = join(volume.target, 'file');
  writeFileSync(path, 'acknowledged', { flush: true });
  writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
  target('silence');
  await eventually(async () => assert.match(await condition(volume), /No connection to the target/), longMs);
  await volume.unpublish();
  await eventually(async () => void (await volume.unstage()), 300_000);
  await nothingLeft();
  assert.doesNotMatch(execFileSync('dmsetup', ['ls'], { encoding: 'utf8' }), /holdfast/);
  target('speak');
  await volume.up(volume_context, secrets);
  assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
  await volume.down();
  await nothingLeft();
}

/** Appends numbers to a file, each with fsync, and says each that is durable. */
class Writer implements AsyncDisposable {
  readonly #child: ChildProcess;
  #written = '';

  constructor(path: string) {
    const program = `const fs = require('node:fs');
      const fd = fs.openSync(process.argv[1], 'a');
      for (let number = 1; ; number++) {
        fs.writeSync(fd, number + '\\n');
        fs.fsyncSync(fd);
        fs.writeSync(1, number + '\\n');
      }`;
    this.#child = spawn(process.execPath, ['-e', program, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#written = `${this.#written}${text}`.slice(-100);
    });
  }

  /** The last number that is durable. */
  get last(): number {
    return Number(this.#written.trim().split('\n').at(-1));
  }

  async goesOn(): Promise<void> {
    const before = this.last;
    await eventually(() => assert.ok(this.last > before + 5, `${this.last}`), longMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

describe('a volume with two portals on a node with multipathd', () => {
  test('uses both of them through one map, and is let go', async () => {
    const [one, other] = [harness.volume('one', xfs), harness.volume('other', ext4)];
    await one.up(contextOf('1'));
    assert.equal(sessions().length, 2);
    assert.deepEqual(maps(), [names().sort()]);
    assert.deepEqual(
      sessions().map(({ name }) => sysfsText(`/sys/class/iscsi_session/${name}/recovery_tmo`)),
      ['5', '5'],
    );
    assert.match(await condition(one), /^The target is connected/);
    await other.up(contextOf('2'));
    assert.equal(names().length, 4);
    assert.deepEqual(
      maps().map((each) => each.length),
      [2, 2],
    );
    writeFileSync(join(one.target, 'file'), 'data');
    await harness.restart();
    await one.down();
    assert.equal(names().length, 2);
    assert.equal(maps().length, 1);
    await other.down();
    await nothingLeft();
    await one.up(contextOf('1'));
    assert.equal(readFileSync(join(one.target, 'file'), 'utf8'), 'data');
    await one.down();
    await nothingLeft();
  });

  test('goes on when a portal is lost, and uses it again', async () => {
    const volume = harness.volume('failover', xfs);
    await volume.up(contextOf('1'));
    const path = join(volume.target, 'numbers');
    await using writer = new Writer(path);
    await writer.goesOn();
    target('second-down');
    await eventually(async () => {
      assert.equal(await condition(volume), `1 of 2 paths to the target are down: ${second}:3260.`);
    }, longMs);
    await writer.goesOn();
    target('second-up');
    await eventually(async () => assert.match(await condition(volume), /^The target is connected/), longMs);
    await writer.goesOn();
    await writer[Symbol.asyncDispose]();
    const { last } = writer;
    await volume.down();
    await nothingLeft();
    await volume.up(contextOf('1'));
    const numbers = readFileSync(path, 'utf8').trim().split('\n').map(Number);
    assert.ok((numbers.at(-1) ?? 0) >= last);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index + 1),
    );
    await volume.down();
    await nothingLeft();
  });

  test('uses one if the other is away, and both the next time', async () => {
    target('second-down');
    const volume = harness.volume('missing', xfs);
    await volume.up(contextOf('1'));
    assert.equal(sessions().length, 1);
    assert.equal(await condition(volume), `1 of 2 paths to the target are down: ${second}:3260.`);
    await volume.down();
    await nothingLeft();
    target('second-up');
    await volume.up(contextOf('1'));
    assert.equal(sessions().length, 2);
    await volume.down();
    await nothingLeft();
  });

  test('is a raw block device', async () => {
    const volume = harness.volume('raw', blockCapability());
    await volume.up(contextOf('2'));
    assert.equal(maps().length, 1);
    await harness.restart();
    await volume.down();
    await nothingLeft();
  });

  test('is let go with the partitions that kpartx makes of it, and not while something holds its map', async () => {
    const volume = harness.volume('partitions', blockCapability());
    await volume.up(contextOf('2'));
    const [map] = names().flatMap((name) => multipathMapOver(name) ?? []);
    assert.ok(map !== undefined);
    const table = `0 8192 linear ${map.devicePath} 0`;
    const build = (name: string, uuid: string) =>
      execFileSync('dmsetup', ['create', name, '--uuid', uuid, '--table', table], { stdio: 'pipe' });
    build('partition', `part1-mpath-${map.wwid}`);
    build('builton', 'other');
    await volume.unpublish();
    await refused(volume.unstage(), 'UNAVAILABLE', new RegExp(`${map.name} is still held`));
    assert.equal(maps().length, 1);
    execFileSync('dmsetup', ['remove', '--retry', 'builton'], { stdio: 'pipe' });
    await volume.unstage();
    await nothingLeft();
  });

  test('waits for its portals again if something holds its map, as it did before its unstage', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    const volume = harness.volume('waits again', blockCapability());
    await volume.up(contextOf('2'));
    const [map] = names().flatMap((name) => multipathMapOver(name) ?? []);
    assert.ok(map !== undefined);
    const table = () => execFileSync('dmsetup', ['table', map.devicePath], { encoding: 'utf8' });
    assert.match(table(), / queue_if_no_path /);
    const over = ['create', 'builton', '--table', `0 8192 linear ${map.devicePath} 0`];
    execFileSync('dmsetup', over, { stdio: 'pipe' });
    target('silence');
    await eventually(async () => assert.match(await condition(volume), /No connection to the target/), longMs);
    await volume.unpublish();
    await refused(volume.unstage(), 'UNAVAILABLE', new RegExp(`${map.name} is still held`));
    await eventually(() => assert.match(table(), / queue_if_no_path /));
    target('speak');
    execFileSync('dmsetup', ['remove', '--retry', 'builton'], { stdio: 'pipe' });
    await eventually(async () => void (await volume.unstage()), longMs);
    await nothingLeft();
    target('multipathd', 'stop');
    target('multipathd', 'start');
  });

  test('grows when its target has grown it', async () => {
    const volume = harness.volume('grows', xfs);
    await volume.up(contextOf('1'));
    await refused(volume.expand(1n << 30n), 'OUT_OF_RANGE', /grow it on the target first/);
    target('grow', directory, 'first', '640M');
    assert.deepEqual(await volume.expand(640n << 20n), { capacity_bytes: 640n << 20n });
    const [{ total } = { total: 0n }] = (await volume.stats()).usage;
    assert.ok(total > 500n << 20n, `${total}`);
    target('second-down');
    await eventually(async () => assert.match(await condition(volume), /^1 of 2 paths/), longMs);
    target('grow', directory, 'first', '800M');
    await refused(volume.expand(800n << 20n), 'UNAVAILABLE', /has not grown: its path sd[a-z] is down/);
    target('second-up');
    await eventually(async () => assert.match(await condition(volume), /^The target is connected/), longMs);
    assert.deepEqual(await volume.expand(800n << 20n), { capacity_bytes: 800n << 20n });
    await volume.down();
    await nothingLeft();
  });

  for (const retry of ['no_path_retry queue', 'no_path_retry fail']) {
    test(`is unmounted when both portals are lost: ${retry}`, async () => {
      target('multipathd', 'stop');
      target('multipathd', 'start', ...always(retry));
      await losesBoth(harness.volume('lost', xfs), contextOf('1'));
    });
  }

  test('is let go with its encryption when both portals are lost', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    execFileSync('modprobe', ['dm-crypt']);
    target('backing', directory, 'encrypted', 'blank');
    target('map', '3', 'encrypted');
    await harness.restart([encryptable(iscsiNodeKind)]);
    const volume = harness.volume('encrypted', ext4);
    const secrets = { key: Buffer.alloc(32, 0x5a).toString('base64') };
    await losesBoth(volume, { ...contextOf('3'), encryption: 'luks2' }, secrets);
    target('unmap', '3');
  });

  test('is unmounted alone when both portals are lost, and another volume of the target waits and goes on', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    const [lost, other] = [harness.volume('lost alone', xfs), harness.volume('waits', ext4)];
    await lost.up(contextOf('1'));
    await other.up(contextOf('2'));
    await using writer = new Writer(join(other.target, 'numbers'));
    await writer.goesOn();
    writeFileSync(join(lost.target, 'dirty'), 'not acknowledged');
    target('silence');
    await eventually(async () => assert.match(await condition(lost), /No connection to the target/), longMs);
    await lost.unpublish();
    await eventually(async () => void (await lost.unstage()), 300_000);
    assert.equal(maps().length, 1);
    target('speak');
    await writer.goesOn();
    await writer[Symbol.asyncDispose]();
    await other.down();
    await nothingLeft();
  });

  test('is unmounted when its target lets in the node and has not the unit any more', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    const volume = harness.volume('no unit', xfs);
    await volume.up(contextOf('1'));
    const path = join(volume.target, 'file');
    writeFileSync(path, 'acknowledged', { flush: true });
    writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
    target('unmap', '1');
    const down = `2 of 2 paths to the target are down: ${first}:3260, ${second}:3260.`;
    await eventually(async () => assert.equal(await condition(volume), down), longMs);
    await volume.unpublish();
    await eventually(async () => void (await volume.unstage()), 300_000);
    await nothingLeft();
    target('map', '1', 'first');
    await volume.up(contextOf('1'));
    assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
    await volume.down();
    await nothingLeft();
  });

  test('is unmounted when its portals are lost, and the target has another one, which another volume uses', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    target('third-up');
    const [lost, other] = [harness.volume('lost portals', xfs), harness.volume('third portal', ext4)];
    await lost.up(contextOf('1', { portals: `${second},${third}` }));
    await other.up(contextOf('2', { portals: first, multipath: 'false' }));
    await using writer = new Writer(join(other.target, 'numbers'));
    await writer.goesOn();
    writeFileSync(join(lost.target, 'dirty'), 'not acknowledged');
    target('second-down');
    target('third-down');
    await eventually(async () => assert.match(await condition(lost), /^2 of 2 paths/), longMs);
    await lost.unpublish();
    await eventually(async () => void (await lost.unstage()), 300_000);
    assert.deepEqual(maps(), []);
    await writer.goesOn();
    await writer[Symbol.asyncDispose]();
    await other.down();
    await nothingLeft();
    target('second-up');
  });

  test('keeps what was written if its paths are back, and multipathd hangs', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    const pid = Number(readFileSync('/run/multipathd.pid', 'utf8'));
    const volume = harness.volume('paths back', xfs);
    await volume.up(contextOf('1'));
    const [map] = names().flatMap((name) => multipathMapOver(name) ?? []);
    assert.ok(map !== undefined);
    // Later it would wait for a path.
    writeFileSync(join(volume.target, 'late'), 'not acknowledged');
    process.kill(pid, 'SIGSTOP');
    try {
      for (const { device } of map.paths) {
        execFileSync('dmsetup', ['message', map.devicePath, '0', `fail_path ${device.major}:${device.minor}`]);
      }
      const lost = /^2 of 2 paths to the target are down: .*multipathd of the node does not answer/;
      assert.match(await condition(volume), lost);
      await volume.unpublish();
      await eventually(async () => void (await volume.unstage()), 300_000);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await nothingLeft();
    await volume.up(contextOf('1'));
    assert.equal(readFileSync(join(volume.target, 'late'), 'utf8'), 'not acknowledged');
    await volume.down();
    await nothingLeft();
  });

  test('is let go as a raw block device when both portals are lost', async () => {
    target('multipathd', 'stop');
    target('multipathd', 'start', ...always('no_path_retry queue'));
    const volume = harness.volume('raw lost', blockCapability());
    await volume.up(contextOf('2'));
    target('silence');
    await eventually(async () => assert.match(await condition(volume), /No connection to the target/), longMs);
    await eventually(async () => void (await volume.down()), 300_000);
    await nothingLeft();
    target('speak');
  });

  test('uses one portal while multipathd hangs', async () => {
    const pid = Number(readFileSync('/run/multipathd.pid', 'utf8'));
    process.kill(pid, 'SIGSTOP');
    const volume = harness.volume('hangs', xfs);
    await volume.up(contextOf('1'));
    assert.deepEqual([sessions().length, maps()], [1, []]);
    process.kill(pid, 'SIGCONT');
    await volume.down();
    await nothingLeft();
  });

  test('has one device if its map is gone, and multipathd makes no other', async () => {
    const volume = harness.volume('no map', xfs);
    await volume.up(contextOf('1'));
    await volume.unpublish();
    execFileSync('umount', [volume.staging]);
    target('multipathd', 'stop');
    execFileSync('multipath', ['-F'], { stdio: 'pipe' });
    assert.deepEqual([names().length, maps()], [2, []]);
    await volume.up(contextOf('1'));
    assert.deepEqual([names().length, maps()], [1, []]);
    await volume.down();
    await nothingLeft();
    target('multipathd', 'start');
  });

  test('is refused if its map has a path of another program, which keeps it', async () => {
    target('host-login');
    await eventually(() => assert.equal(names().length, 2));
    const [hosts] = names();
    const volume = harness.volume('foreign', xfs);
    await refused(
      volume.stage({ volume_context: contextOf('1') }),
      'FAILED_PRECONDITION',
      new RegExp(`beside ${hosts}, which is not this driver's`),
    );
    await volume.unstage();
    assert.deepEqual(
      sessions().map(({ ifaceName }) => ifaceName),
      ['default'],
    );
    await eventually(() => assert.equal(multipathMapOver(`${hosts}`)?.paths.length, 1), longMs);
    execFileSync('multipath', ['-F'], { stdio: 'pipe' });
    target('host-logout');
    await nothingLeft();
  });

  test('stays while multipathd is stopped, says so, and leaves nothing', async () => {
    const volume = harness.volume('no daemon', xfs);
    await volume.up(contextOf('1'));
    const path = join(volume.target, 'numbers');
    await using writer = new Writer(path);
    target('multipathd', 'stop');
    assert.match(await condition(volume), /multipathd of the node does not run/);
    target('second-down');
    await writer.goesOn();
    const both = /^1 of 2 paths to the target are down: [0-9.:]+\. multipathd of the node does not run/;
    await eventually(async () => assert.match(await condition(volume), both), longMs);
    await writer.goesOn();
    await writer[Symbol.asyncDispose]();
    target('second-up');
    await volume.down();
    await nothingLeft();
    // Without it one portal is used, as on a node that has no multipathd.
    await volume.up(contextOf('1'));
    assert.equal(sessions().length, 1);
    assert.deepEqual(maps(), []);
    await volume.down();
    await refused(
      volume.stage({ volume_context: contextOf('1', { multipath: 'true' }) }),
      'FAILED_PRECONDITION',
      /multipath is "true", but multipathd of this node does not run/,
    );
    await nothingLeft();
    target('multipathd', 'start');
  });

  test('uses one portal if it is told to, and the map of multipathd over that', async () => {
    const volume = harness.volume('never', xfs);
    const once = contextOf('1', { multipath: 'false' });
    // It knows the unit of earlier tests, and may take the device at any moment; the kubelet tries again, too.
    await eventually(async () => void (await volume.up(once)), longMs);
    assert.equal(sessions().length, 1);
    await volume.down();
    await nothingLeft();
    target('multipathd', 'stop');
    target('multipathd', 'start', 'find_multipaths greedy');
    const other = harness.volume('has the session', ext4);
    await eventually(async () => void (await other.up({ ...once, lun: '2' })), longMs);
    const [session] = sessions();
    assert.ok(session !== undefined);
    await scanLun(new DiskQueue('host', 1), session, '1');
    const taken = () => multipathMapOver(sessions()[0]?.luns.find(({ lun }) => lun === '1')?.name ?? '');
    await eventually(() => assert.ok(taken() !== undefined), longMs);
    await volume.up(once);
    assert.match(readFileSync('/proc/self/mountinfo', 'utf8'), new RegExp(`${taken()?.devicePath} `));
    assert.equal(sessions().length, 1);
    await volume.down();
    await other.down();
    await nothingLeft();
    target('multipathd', 'stop');
    target('multipathd', 'start', '}', 'blacklist {', 'device {', 'vendor "LIO-ORG"', 'product ".*"', '}');
    await volume.up(contextOf('1'));
    assert.deepEqual([sessions().length, maps()], [1, []]);
    await volume.down();
    await nothingLeft();
  });

  test('is found by the check of the node', async () => {
    const findings = await iscsiNodeKind.checkNode?.(new DiskQueue('check', 1));
    assert.match(findings?.[0]?.detail ?? '', /; multipathd runs, for volumes with several portals$/);
  });
});
