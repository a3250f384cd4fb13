import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { attachedDevices } from '../../src/pool/attached-device.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type Cut, Freezer, type FreezeTarget } from '../../src/pool/freeze/freezer.ts';
import { Freezes } from '../../src/pool/freeze/freezes.ts';
import { type MountedVolume, Standstill } from '../../src/pool/freeze/standstill.ts';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { Aborted, FailedPrecondition } from '../../src/volume/errors.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { gate } from '../grpc/controller-driver.ts';
import { Child, startNamespace } from '../support/child.ts';
import { soon } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { mounted } from '../support/mounted-volume.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 4);
const dataDirectory = mkdtempSync(join(tmpdir(), 'freezer-'));
after(() => rmSync(dataDirectory, { recursive: true }));
const parts = { dataDirectory, queue, log: quiet, name: 'test' };
const nothing = async () => undefined;

/** Starts to write to a file. */
function writer(path: string): Promise<Child> {
  return Child.start(['dd', 'if=/dev/zero', `of=${path}/file`, 'bs=4096', 'count=1', 'conv=fsync', 'status=none']);
}

/** It hangs where a filesystem is frozen. */
async function assertWritable(path: string): Promise<void> {
  await using child = await writer(path).catch(() => undefined);
  if (child !== undefined) await soon(child.ended(), `nobody can write to ${path}`);
}

function opened({ paths, targets }: InUse): Promise<MountedVolume[]> {
  return Promise.all(
    targets.map(async ({ volumeId }, index) => ({
      volumeId,
      directory: await openReadOnly(queue, paths[index] ?? ''),
    })),
  );
}

function thawByHand(path: string): boolean {
  return spawnSync('fsfreeze', ['--unfreeze', path], { stdio: 'ignore' }).status === 0;
}

/** A clock on which more time passes than on ours. */
function slowClock(t: TestContext): { passMs(ms: number): void } {
  const real = performance.now.bind(performance);
  let passedMs = 0;
  t.mock.method(performance, 'now', () => real() + passedMs);
  return {
    passMs(ms) {
      passedMs += ms;
    },
  };
}

/** Mounted volumes, which are writable again when the test has ended, however it has. */
class InUse implements AsyncDisposable {
  readonly targets: FreezeTarget[] = [];
  readonly paths: string[] = [];
  readonly #scratch = new Scratch('freezer');
  readonly #undo = new AsyncDisposableStack();

  static async start(...names: string[]): Promise<InUse> {
    return InUse.startWith('ext4', ...names);
  }

  static async startWith(fsType: FilesystemType, ...names: string[]): Promise<InUse> {
    const inUse = new InUse();
    const pool = inUse.#undo.adopt(await openTestPool(inUse.#scratch), (each) => each.close());
    for (const name of names) await inUse.#mount(pool, name, fsType);
    return inUse;
  }

  async #mount(pool: Catalog, name: string, fsType: FilesystemType): Promise<void> {
    const sizeBytes = fsType === 'ext4' ? 64n << 20n : 320n << 20n;
    const { id } = await pool.create(volumeSpec(name, { content: { type: 'mount', fsType }, sizeBytes }));
    const volume = this.#undo.use(await mounted(pool, id, this.#scratch));
    this.paths.push(volume.path);
    this.targets.push({ volumeId: id, devices: await attachedDevices(pool, id), hasFilesystem: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    for (const path of this.paths) thawByHand(path);
    await this.#undo.disposeAsync();
  }
}

describe('a freeze', () => {
  test('K05: work on volumes that nobody has mounted may take as long as it likes', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const freezer = new Freezer(parts);
    const [work, begun] = [gate(), gate()];
    const target = { volumeId: volumeIdFor('node', 'pool', 'a'), devices: [], hasFilesystem: true };
    const copying = freezer.whileFrozen([target], {
      ahead: () => assert.fail('there is nothing to be done ahead'),
      async work() {
        begun.open();
        await work.opened;
        return 'copied';
      },
    });
    await begun.opened;
    t.mock.timers.tick(3_600_000);
    work.open();
    assert.deepEqual(await copying, { result: 'copied', frozenMs: 0 });
  });

  test('GR07 GR10: all stand still while the work is done, and none when it is done or has failed', async () => {
    await using inUse = await InUse.start('a', 'b');
    const freezer = new Freezer(parts);
    const seen = await freezer.whileFrozen(inUse.targets, {
      ahead: nothing,
      async work() {
        // Frozen: else thawing it by hand would fail. And that is noticed.
        return inUse.paths.map((path) => spawnSync('fsfreeze', ['--freeze', path], { encoding: 'utf8' }).stderr);
      },
    });
    for (const said of seen.result) assert.match(said, /busy/);
    const failing = { ahead: nothing, work: () => Promise.reject(new Error('no room, say')) };
    await assert.rejects(freezer.whileFrozen(inUse.targets, failing), /no room, say/);
    for (const path of inUse.paths) await assertWritable(path);
  });

  test('GR07: who thaws one meanwhile spoils the cut', async () => {
    await using inUse = await InUse.start('a', 'b');
    const cut: Cut<boolean> = { ahead: nothing, work: async () => thawByHand(inUse.paths[0] ?? '') };
    await assert.rejects(new Freezer(parts).whileFrozen(inUse.targets, cut), (error) => {
      return error instanceof Aborted && /another program thawed/.test(error.message);
    });
    for (const path of inUse.paths) await assertWritable(path);
  });

  test('K05: writers who have waited for too long go on while the work is still at it, and what it makes is given up', async (t) => {
    await using inUse = await InUse.start('a', 'b');
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const cutting = new Freezer(parts).whileFrozen(inUse.targets, {
      ahead: nothing,
      async work(late) {
        t.mock.timers.tick(10_000);
        t.mock.timers.reset();
        assert.ok(late.aborted);
        for (const path of inUse.paths) await assertWritable(path);
        return 'a clone of what is written to';
      },
    });
    await assert.rejects(cutting, (error) => error instanceof Aborted && /took longer than 10 s/.test(error.message));
  });

  test('what takes long is done ahead, and the time for it is not counted', async (t) => {
    await using inUse = await InUse.start('a');
    const clock = slowClock(t);
    let rounds = 0;
    const cut = {
      async ahead() {
        await assertWritable(inUse.paths[0] ?? '');
        if (rounds++ === 0) clock.passMs(60_000);
      },
      work: async () => 'cut',
    };
    assert.equal((await new Freezer(parts).whileFrozen(inUse.targets, cut)).result, 'cut');
    assert.ok(rounds > 1);
  });

  test('if writers would have to wait for too long it is said before they do', async (t) => {
    await using inUse = await InUse.start('a');
    const clock = slowClock(t);
    const cut: Cut<never> = {
      ahead: async () => clock.passMs(60_000),
      work: () => assert.fail('it was frozen'),
    };
    const id = inUse.targets[0]?.volumeId ?? '';
    await assert.rejects(new Freezer(parts).whileFrozen(inUse.targets, cut), (error) => {
      assert.ok(error instanceof FailedPrecondition && error.message.length <= 200, `${error}`);
      assert.match(error.message, new RegExp(`${id}.*very many pieces.* 60 s.*Stop`));
      return true;
    });
  });

  test('CS13: a filesystem that nothing leads to is not cloned unfrozen', async () => {
    await using inUse = await InUse.start('a');
    const [path = ''] = inUse.paths;
    const [target] = inUse.targets;
    assert.ok(target);
    // As if its device could not be opened.
    const devices = target.devices.map((device) => ({ ...device, devicePath: join(path, 'no-such-device') }));
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', path]);
    try {
      const cut = { ahead: nothing, work: () => assert.fail('it was not frozen') };
      await assert.rejects(new Freezer(parts).whileFrozen([{ ...target, devices }], cut), (error) => {
        return error instanceof FailedPrecondition && /hidden by another mount/.test(error.message);
      });
    } finally {
      execFileSync('umount', [path]);
    }
  });
});

describe('a filesystem that a hook has frozen', () => {
  test('CS13: stands still for a cut, and stays frozen', async () => {
    await using inUse = await InUse.start('a', 'b');
    const [path = ''] = inUse.paths;
    execFileSync('fsfreeze', ['--freeze', path]);
    const cut: Cut<string> = { ahead: nothing, work: async () => 'cut' };
    assert.equal((await new Freezer(parts).whileFrozen(inUse.targets, cut)).result, 'cut');
    assert.ok(thawByHand(path), 'it was thawed');
    for (const each of inUse.paths) await assertWritable(each);
  });

  test('CS13: who thaws what a hook had frozen spoils the cut, and it is not left frozen', async () => {
    await using inUse = await InUse.start('a', 'b');
    const [path = ''] = inUse.paths;
    execFileSync('fsfreeze', ['--freeze', path]);
    const cut: Cut<boolean> = { ahead: nothing, work: async () => thawByHand(path) };
    await assert.rejects(new Freezer(parts).whileFrozen(inUse.targets, cut), Aborted);
    for (const each of inUse.paths) await assertWritable(each);
  });

  test('T04: is not thawed for a note of an earlier boot', async () => {
    await using inUse = await InUse.start('a');
    const [path = ''] = inUse.paths;
    const [target] = inUse.targets;
    assert.ok(target);
    mkdirSync(join(dataDirectory, 'frozen'), { recursive: true });
    const note = join(dataDirectory, 'frozen', `test.${target.volumeId}`);
    writeFileSync(note, 'another boot');
    execFileSync('fsfreeze', ['--freeze', path]);
    assert.equal(
      await new Freezer(parts).thawLeft({
        attached: async () => target.devices.map((each) => ({ kind: 'device', ...each })),
      }),
      0,
    );
    assert.equal(existsSync(note), false);
    assert.ok(thawByHand(path), 'it was thawed');
  });
});

/** A volume with one filesystem, which is the driver's own affair or a pod's. */
function attachedVolume(target: FreezeTarget | undefined, content: VolumeContent) {
  assert.ok(target);
  const attached = target.devices.map((each) => ({ kind: 'device' as const, ...each }));
  return { id: target.volumeId, content, attached };
}

const ext4: VolumeContent = { type: 'mount', fsType: 'ext4' };

/** Mounted nowhere, and still frozen; mounted again on disposal. */
function leaveFrozen({ paths: [path = ''], targets }: InUse): Disposable {
  const devicePath = targets[0]?.devices[0]?.devicePath ?? '';
  // Its device would go once it is thawed.
  const descriptor = openSync(devicePath, 'r');
  execFileSync('fsfreeze', ['--freeze', path]);
  execFileSync('umount', [path]);
  return {
    [Symbol.dispose]() {
      execFileSync('mount', [devicePath, path]);
      closeSync(descriptor);
    },
  };
}

describe('a frozen filesystem that is mounted nowhere', () => {
  test("H9: is left so on a raw block volume, where it is a pod's own", async () => {
    await using inUse = await InUse.start('a');
    {
      using _again = leaveFrozen(inUse);
      assert.equal(await new Freezer(parts).endUnseen(attachedVolume(inUse.targets[0], { type: 'block' })), 0);
    }
    assert.ok(thawByHand(inUse.paths[0] ?? ''), 'it was thawed');
  });

  test('H10: is thawed by a driver that sees all processes of the node, and by another only if that froze it', async () => {
    await using inUse = await InUse.start('a');
    const [target] = inUse.targets;
    const [device] = target?.devices ?? [];
    assert.ok(target && device);
    const { major, minor } = device.device;
    const program = join(import.meta.dirname, 'freezer-in-container.ts');
    const endInContainer = () =>
      execFileSync('unshare', [
        ...['--pid', '--fork', '--kill-child', process.execPath, program],
        ...[dataDirectory, target.volumeId, device.devicePath, `${major}`, `${minor}`],
      ])
        .toString()
        .trim();
    const note = join(dataDirectory, 'frozen', `test.${target.volumeId}`);
    {
      using _again = leaveFrozen(inUse);
      assert.equal(endInContainer(), '0');
      mkdirSync(join(dataDirectory, 'frozen'), { recursive: true });
      writeFileSync(note, readFileSync('/proc/sys/kernel/random/boot_id'));
      assert.equal(endInContainer(), '1');
      assert.equal(existsSync(note), false);
    }
    assert.equal(thawByHand(inUse.paths[0] ?? ''), false);
    {
      using _again = leaveFrozen(inUse);
      assert.equal(await new Freezer(parts).endUnseen(attachedVolume(inUse.targets[0], ext4)), 1);
    }
  });

  test('H24: is found among many by few looks at the mount table', async (t) => {
    await using inUse = await InUse.start('a', 'b', 'c');
    const run = t.mock.method(queue, 'run');
    const volumes = inUse.targets.map((target) => attachedVolume(target, ext4));
    assert.equal(await new Freezer(parts).endUnseen(...volumes), 0);
    assert.equal(run.mock.callCount(), 1);
  });
});

test('H8: a freeze of a btrfs in use is not ended for the name that its mounts have', async () => {
  await using inUse = await InUse.startWith('btrfs', 'a');
  const [device] = inUse.targets[0]?.devices ?? [];
  assert.ok(device);
  const node = join(dataDirectory, 'node');
  execFileSync('mknod', [node, 'b', `${device.device.major}`, `${device.device.minor}`]);
  execFileSync('btrfs', ['device', 'scan', node]);
  const [path = ''] = inUse.paths;
  execFileSync('fsfreeze', ['--freeze', path]);
  assert.equal(
    await new Freezer(parts).endUnseen(attachedVolume(inUse.targets[0], { type: 'mount', fsType: 'btrfs' })),
    0,
  );
  assert.ok(thawByHand(path), 'it was thawed');
  // Nor is it taken for one that is mounted nowhere.
  const cut: Cut<string> = { ahead: nothing, work: async () => 'cut' };
  assert.equal((await new Freezer(parts).whileFrozen(inUse.targets, cut)).result, 'cut');
});

test('H30: what a killed driver left frozen is thawed also if it is mounted in a container only', async () => {
  await using inUse = await InUse.start('a');
  const [path = ''] = inUse.paths;
  const volume = attachedVolume(inUse.targets[0], ext4);
  const note = join(dataDirectory, 'frozen', `test.${volume.id}`);
  await new Freezes(dataDirectory, 'test').freeze(queue, volume.id, path);
  assert.ok(existsSync(note));
  await using _container = await startNamespace(path);
  execFileSync('umount', [path]);
  assert.equal(await new Freezer(parts).thawLeft({ attached: async () => volume.attached }), 1);
  assert.equal(existsSync(note), false);
  execFileSync('mount', [volume.attached[0]?.devicePath ?? '', path]);
  assert.equal(thawByHand(path), false);
});

describe('a pool that is opened', () => {
  test('K05: leaves alone what another pool on the same filesystem has frozen', async () => {
    await using inUse = await InUse.start('a');
    const [path = ''] = inUse.paths;
    execFileSync('fsfreeze', ['--freeze', path]);
    using scratch = new Scratch('freezer');
    const other = await openTestPool(scratch);
    await other.close();
    assert.ok(thawByHand(path), 'it was thawed');
  });
});

describe('a node whose own disk takes no note', () => {
  for (const [why, options] of [
    ['H27: as it is read-only', 'ro'],
    ['H27: as it is full', 'size=4k,nr_inodes=1'],
  ] as const) {
    test(why, async () => {
      await using inUse = await InUse.start('a');
      const directory = mkdtempSync(join(tmpdir(), 'freezer-full-'));
      execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory]);
      try {
        const freezer = new Freezer({ ...parts, dataDirectory: directory });
        const cut: Cut<string> = { ahead: nothing, work: async () => 'cut' };
        assert.equal((await freezer.whileFrozen(inUse.targets, cut)).result, 'cut');
        await assertWritable(inUse.paths[0] ?? '');
      } finally {
        execFileSync('umount', [directory]);
        rmSync(directory, { recursive: true });
      }
    });
  }

  test('H27: as it becomes read-only while there is one', async () => {
    await using inUse = await InUse.start('a');
    const directory = mkdtempSync(join(tmpdir(), 'freezer-ro-'));
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', directory]);
    try {
      const freezer = new Freezer({ ...parts, dataDirectory: directory });
      const work = async () => execFileSync('mount', ['-o', 'remount,ro', directory]);
      await freezer.whileFrozen(inUse.targets, { ahead: nothing, work });
      await assertWritable(inUse.paths[0] ?? '');
    } finally {
      execFileSync('umount', [directory]);
      rmSync(directory, { recursive: true });
    }
  });
});

test('H47: where the notes cannot be kept, no start is taken for the first one', async () => {
  await using inUse = await InUse.start('a');
  const [path = ''] = inUse.paths;
  const directory = mkdtempSync(join(tmpdir(), 'freezer-full-'));
  mkdirSync(join(directory, `frozen/.noted.${parts.name}.new`), { recursive: true });
  const freezer = new Freezer({ ...parts, dataDirectory: directory });
  try {
    execFileSync('fsfreeze', ['--freeze', path]);
    assert.equal(await freezer.thawUnnoted(async () => [attachedVolume(inUse.targets[0], ext4)]), 0);
    assert.ok(thawByHand(path), 'it was thawed');
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('H12: the first start after a driver without notes thaws all that is frozen, and no later one', async () => {
  await using inUse = await InUse.start('a');
  const [path = ''] = inUse.paths;
  const directory = mkdtempSync(join(tmpdir(), 'freezer-upgrade-'));
  const freezer = new Freezer({ ...parts, dataDirectory: directory });
  const volumes = async () => [attachedVolume(inUse.targets[0], ext4)];
  try {
    execFileSync('fsfreeze', ['--freeze', path]);
    assert.equal(await freezer.thawUnnoted(volumes), 1);
    await assertWritable(path);
    execFileSync('fsfreeze', ['--freeze', path]);
    assert.equal(await freezer.thawUnnoted(volumes), 0);
    assert.ok(thawByHand(path), 'it was thawed');
  } finally {
    rmSync(directory, { recursive: true });
  }
});

/** From a moment on it takes a freeze as long as the test wants, as one of a filesystem with much to write back. */
class SlowFreezes extends Freezes {
  readonly #thawed = gate();
  #answer: Promise<void> = Promise.resolve();

  /** One of them. */
  get thawed(): Promise<void> {
    return this.#thawed.opened;
  }

  override async thaw(...parameters: Parameters<Freezes['thaw']>): ReturnType<Freezes['thaw']> {
    const wasFrozen = await super.thaw(...parameters);
    this.#thawed.open();
    return wasFrozen;
  }

  slowFromNow(): { open(): void } {
    const { open, opened: answer } = gate();
    this.#answer = answer;
    return { open };
  }

  override async freeze(...parameters: Parameters<Freezes['freeze']>): ReturnType<Freezes['freeze']> {
    await this.#answer;
    return super.freeze(...parameters);
  }
}

describe('filesystems that stand still', () => {
  const freezes = new Freezes(dataDirectory, 'test');
  const options = { freezes, queue, thawQueue: queue.beside('thaw', 1), log: quiet };

  test('one that cannot be thawed keeps no other frozen', async () => {
    await using inUse = await InUse.start('a', 'b', 'c');
    const directories = await opened(inUse);
    const standstill = new Standstill(options);
    await standstill.begin(directories);
    await directories[0]?.directory[Symbol.asyncDispose]();
    await assert.rejects(standstill.end(), /EBADF/);
    const [first = '', ...others] = inUse.paths;
    for (const path of others) await assertWritable(path);
    assert.ok(thawByHand(first));
    for (const { directory } of directories) await directory[Symbol.asyncDispose]();
  });

  test('H11: writers do not wait for the answer whether a hook still has another one frozen', async () => {
    await using inUse = await InUse.start('a', 'b');
    const directories = await opened(inUse);
    const [held = '', ours = ''] = inUse.paths;
    execFileSync('fsfreeze', ['--freeze', held]);
    const slow = new SlowFreezes(dataDirectory, 'test');
    const standstill = new Standstill({ ...options, freezes: slow, answerMs: 600_000 });
    await standstill.begin(directories);
    assert.ok(thawByHand(held));
    const answer = slow.slowFromNow();
    const ended = standstill.endInTime();
    try {
      await soon(slow.thawed, 'nothing is thawed');
      await assertWritable(ours);
    } finally {
      answer.open();
    }
    assert.equal(await ended, false);
    await assertWritable(held);
    for (const { directory } of directories) await directory[Symbol.asyncDispose]();
  });

  test('H13: a note stays as long as its filesystem is frozen, whoever else wants to freeze it', async () => {
    await using inUse = await InUse.start('a');
    const [{ directory, volumeId } = assert.fail()] = await opened(inUse);
    const note = join(dataDirectory, 'frozen', `test.${volumeId}`);
    assert.equal(await freezes.freeze(queue, volumeId, directory), 'frozen');
    assert.equal(await new Freezes(dataDirectory, 'test').freeze(queue, volumeId, directory), 'held');
    assert.ok(existsSync(note));
    assert.ok(await freezes.thaw(queue, volumeId, directory));
    assert.equal(existsSync(note), false);
    await directory[Symbol.asyncDispose]();
  });

  test('what is frozen only after the end is thawed at once', async () => {
    await using inUse = await InUse.start('a', 'b');
    const directories = await opened(inUse);
    const standstill = new Standstill(options);
    const begun = standstill.begin(directories);
    await standstill.end();
    await begun;
    for (const path of inUse.paths) assert.equal(thawByHand(path), false);
    for (const { directory } of directories) await directory[Symbol.asyncDispose]();
  });
});
