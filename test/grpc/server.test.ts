import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { lockExclusively } from '../../src/kernel/process/lock.ts';
import { CallError, connectDriver } from '../support/client.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { eventually, soon } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { Scratch } from '../support/scratch.ts';

/** A pool in a directory opens at once; the default one is a file to be made first. */
const directoryPool = (scratch: Scratch, more = '') =>
  `pools:\n  default:\n    directory: ${scratch.join('pool')}\n${more}`;

/** Keeps the driver from opening its pool, which is there already, until it is disposed of. */
async function lockedPool(scratch: Scratch): Promise<AsyncDisposable> {
  await (await DriverProcess.start(scratch, { config: directoryPool(scratch) })).stop();
  const lock = await lockExclusively(new DiskQueue('test', 1), scratch.join('pool'));
  assert.ok(lock !== undefined);
  return lock;
}

describe('start', () => {
  test('with no configuration at all there is a pool on which everything works', async () => {
    using scratch = new Scratch('server');
    const driver = await DriverProcess.start(scratch);
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    const id = await volume.bringUp(client);
    writeFileSync(volume.file('x'), 'kept');
    await volume.tearDown(client, id);
    assert.deepEqual(await driver.stop(), { code: 0, signal: null });
    await assertNothingLeft(scratch);
    assert.ok(!existsSync(driver.socketPath));
  });

  test('I07: Probe answers while a pool is still being opened, and says so', async () => {
    using scratch = new Scratch('server');
    const lock = await lockedPool(scratch);
    await using driver = DriverProcess.spawn(scratch, { config: directoryPool(scratch) });
    await driver.listening();
    using client = driver.connect();
    assert.deepEqual(await client.identity.Probe({}), { ready: { value: false } });
    assert.equal((await client.identity.GetPluginInfo({})).name, 'holdfast.csi.dev');
    await assert.rejects(client.controller.DeleteVolume({ volume_id: `vol-${'a'.repeat(26)}` }), isCode('UNAVAILABLE'));
    await lock[Symbol.asyncDispose]();
    await driver.ready();
  });

  test('a call that comes while the pools are being opened waits for them', async () => {
    using scratch = new Scratch('server');
    const lock = await lockedPool(scratch);
    await using driver = DriverProcess.spawn(scratch, { config: directoryPool(scratch) });
    await driver.listening();
    using client = driver.connect();
    const listed = client.controller.ListVolumes({});
    assert.deepEqual(await client.identity.Probe({}), { ready: { value: false } });
    await lock[Symbol.asyncDispose]();
    assert.deepEqual((await listed).entries, []);
  });

  test('O02: a socket that a killed driver left is replaced', async () => {
    using scratch = new Scratch('server');
    const config = directoryPool(scratch);
    const first = await DriverProcess.start(scratch, { config });
    await first.kill();
    assert.ok(existsSync(first.socketPath));
    await using second = await DriverProcess.start(scratch, { config });
    using client = second.connect();
    assert.equal((await client.identity.Probe({})).ready?.value, true);
  });

  test('O02: a socket that somebody serves is an error', async () => {
    using scratch = new Scratch('server');
    const server = createServer().listen(scratch.join('csi.sock'));
    await once(server, 'listening');
    try {
      await using driver = DriverProcess.spawn(scratch, { config: directoryPool(scratch) });
      assert.deepEqual(await driver.ended(), { code: 1, signal: null });
      assert.match(driver.output(), /^holdfast: Another process serves .*csi\.sock/m);
      assert.doesNotMatch(driver.output(), /^ +at /m);
    } finally {
      server.close();
    }
  });

  test('O01: without CSI_ENDPOINT it does not start', async () => {
    using scratch = new Scratch('server');
    await using driver = DriverProcess.spawn(scratch, { environment: { CSI_ENDPOINT: '' } });
    assert.deepEqual(await driver.ended(), { code: 2, signal: null });
    assert.match(driver.output(), /^holdfast: CSI_ENDPOINT is not set/m);
  });

  test('O01: without the directory of its socket it does not start, and does not create it', async () => {
    using scratch = new Scratch('server');
    const socketPath = scratch.join('run', 'holdfast', 'csi.sock');
    await using driver = DriverProcess.spawn(scratch, {
      config: directoryPool(scratch),
      socketPath,
      logPath: scratch.join('log'),
    });
    assert.deepEqual(await driver.ended(), { code: 1, signal: null });
    assert.match(
      driver.output(),
      /^holdfast: The directory .*\/run\/holdfast of the socket .*csi\.sock does not exist: create it/m,
    );
    assert.equal(existsSync(scratch.join('run')), false);
  });

  test('a socket that cannot be created is an error with its path', async () => {
    using scratch = new Scratch('server');
    await using driver = DriverProcess.spawn(scratch, { socketPath: '/proc/csi.sock', logPath: scratch.join('log') });
    assert.deepEqual(await driver.ended(), { code: 1, signal: null });
    assert.match(driver.output(), /^holdfast: .*\/proc\/\.?csi\.sock/m);
  });

  test('others than root and its group cannot reach the socket', async () => {
    using scratch = new Scratch('server');
    await using driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    assert.equal(statSync(driver.socketPath).mode & 0o007, 0);
  });
});

describe('two drivers on one pool', () => {
  test('the second waits for the first to go', async () => {
    using scratch = new Scratch('server');
    const config = directoryPool(scratch);
    const first = await DriverProcess.start(scratch, { config });
    await using second = DriverProcess.spawn(scratch, { config, socketPath: scratch.join('second.sock') });
    await second.listening();
    using client = second.connect();
    assert.equal((await client.identity.Probe({})).ready?.value, false);
    await first.stop();
    await second.ready();
  });

  test('the second gives up in the end, and says who has the pool', async () => {
    using scratch = new Scratch('server');
    const config = directoryPool(scratch, 'lockTimeoutSeconds: 0.2\n');
    await using first = await DriverProcess.start(scratch, { config });
    const socketPath = scratch.join('second.sock');
    await using second = DriverProcess.spawn(scratch, { config, socketPath });
    assert.deepEqual(await soon(second.ended(), 'the second driver goes on', 60_000), { code: 1, signal: null });
    assert.match(
      second.output(),
      new RegExp(`^holdfast: pool default: .*/pool is held by process ${first.pid} \\(.*serve`, 'm'),
    );
    // Once, and while it waits: whoever reads the log then knows what for.
    const waits = second.log().filter(({ msg }) => msg === 'waiting for another driver to let a pool go');
    assert.deepEqual(
      waits.map(({ held_by, pool }) => ({ pool, isFirst: String(held_by).startsWith(`process ${first.pid} (`) })),
      [{ pool: 'default', isFirst: true }],
    );
    assert.ok(!existsSync(socketPath));
    using client = first.connect();
    assert.equal((await client.identity.Probe({})).ready?.value, true);
  });
});

describe('stop', () => {
  test('SIGTERM finishes the calls that run, and keeps what it acknowledged', async () => {
    using scratch = new Scratch('server');
    const config = directoryPool(scratch);
    const driver = await DriverProcess.start(scratch, { config });
    using client = driver.connect();
    const calls = Array.from({ length: 24 }, (_, index) => new TestVolume(scratch, `v${index}`).create(client));
    await Promise.race(calls);
    driver.signal('SIGTERM');
    const outcomes = await Promise.allSettled(calls);
    assert.deepEqual(await driver.ended(), { code: 0, signal: null });
    const acknowledged = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') assert.ok(isCode('UNAVAILABLE')(outcome.reason), String(outcome.reason));
    }
    await assertNothingLeft(scratch);
    assert.ok(!existsSync(driver.socketPath));

    await using next = await DriverProcess.start(scratch, { config });
    using nextClient = next.connect();
    const { entries } = await nextClient.controller.ListVolumes({});
    const found = new Set(entries.map(({ volume }) => volume?.volume_id));
    for (const id of acknowledged) assert.ok(found.has(id), `${id} was acknowledged and is gone`);
  });

  test('SIGINT is as good', async () => {
    using scratch = new Scratch('server');
    const driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    driver.signal('SIGINT');
    assert.deepEqual(await driver.ended(), { code: 0, signal: null });
  });

  for (const how of ['stop', 'kill'] as const) {
    test(`T04: a published volume outlives ${how === 'stop' ? 'SIGTERM' : 'kill -9'} and is undone by the next driver`, async () => {
      using scratch = new Scratch('server');
      const volume = new TestVolume(scratch, 'v');
      const driver = await DriverProcess.start(scratch);
      using client = driver.connect();
      const id = await volume.bringUp(client);
      writeFileSync(volume.file('x'), 'kept');
      await driver[how]();
      assert.equal(readFileSync(volume.file('x'), 'utf8'), 'kept');

      const next = await DriverProcess.start(scratch);
      using nextClient = next.connect();
      await volume.stage(nextClient, id);
      await volume.publish(nextClient, id);
      assert.equal(readFileSync(volume.file('x'), 'utf8'), 'kept');
      await volume.tearDown(nextClient, id);
      assert.deepEqual(await next.stop(), { code: 0, signal: null });
      await assertNothingLeft(scratch);
    });
  }
});

describe('a sick pool', () => {
  const config = (scratch: Scratch) =>
    `pools:\n  well: { directory: ${scratch.join('well')} }\n  sick: { file: ${scratch.join('sick.img')} }\ndefaultPool: well\n`;

  test('design 3.7: disturbs no other', async () => {
    using scratch = new Scratch('server');
    writeFileSync(scratch.join('sick.img'), 'not a filesystem, but not blank either'.padEnd(1 << 20, '.'));
    await using driver = await DriverProcess.start(scratch, { config: config(scratch) });
    using client = driver.connect();
    const volume = new TestVolume(scratch, 'v');
    await volume.create(client);
    // The driver answers before all its pools have been tried.
    await eventually(() => {
      const failure = driver.log().find(({ level, pool }) => level === 'error' && pool === 'sick');
      assert.ok(failure !== undefined, driver.output());
    });
    await assert.rejects(volume.create(client, { pool: 'sick' }), isCode('UNAVAILABLE'));
  });

  test('I08: with no pool that works Probe fails and says why', async () => {
    using scratch = new Scratch('server');
    writeFileSync(scratch.join('well'), 'a file, not a directory');
    const onlySick = `pools:\n  well: { directory: ${scratch.join('well', 'below')} }\n`;
    await using driver = DriverProcess.spawn(scratch, { config: onlySick });
    await assert.rejects(driver.ready(), isCode('FAILED_PRECONDITION'));
  });
});

describe('registration with the kubelet', () => {
  test('is served when its socket is named, and gone after the stop', async () => {
    using scratch = new Scratch('server');
    const socketPath = scratch.join('holdfast-reg.sock');
    const driver = await DriverProcess.start(scratch, {
      config: directoryPool(scratch),
      environment: { HOLDFAST_REGISTRATION_SOCKET: socketPath, HOLDFAST_DRIVER_NAME: 'disk.example.org' },
    });
    await driver.logged('listening for the kubelet');
    using kubelet = connectDriver(socketPath);
    assert.deepEqual(await kubelet.registration.GetInfo({}), {
      type: 'CSIPlugin',
      name: 'disk.example.org',
      endpoint: driver.socketPath,
      supported_versions: ['1.0.0'],
    });
    await kubelet.registration.NotifyRegistrationStatus({ plugin_registered: true });
    await driver.stop();
    assert.ok(!existsSync(socketPath));
    assert.ok(driver.log().some(({ msg }) => msg === 'registered with the kubelet'));
  });
});

test('O04: the log is JSON, a line each, on standard output alone', async () => {
  using scratch = new Scratch('server');
  const driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
  using client = driver.connect();
  await new TestVolume(scratch, 'v').create(client);
  await driver.stop();
  const lines = driver.output().trim().split('\n');
  for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
  const call = driver.log().find(({ rpc }) => rpc === 'CreateVolume');
  assert.equal(call?.['code'], 'OK');
  assert.equal(call?.['pool'], 'default');
  // Lines are gathered before they are written; the end of the process takes none with it.
  assert.equal(driver.log().at(-1)?.['msg'], 'stopped');
});

function isCode(code: string): (error: unknown) => boolean {
  return (error) => error instanceof CallError && error.code === code;
}
