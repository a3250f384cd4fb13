import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { addServices, type ServiceHandlers } from '../../src/csi/call.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { serveRegistration } from '../../src/csi/registration.ts';
import { CallError, connectDriver } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { WatchedDirectory } from '../support/watched-directory.ts';
import { type LogLine, until } from './wire-server.ts';

const silent = pino({ level: 'silent' });

/** A listener that a failed test does not leave behind. */
type TestListener = Listener & AsyncDisposable;

function disposable(listener: Listener): TestListener {
  return { ...listener, [Symbol.asyncDispose]: () => listener.close(1_000) };
}

async function serve(socketPath: string, handlers: Partial<ServiceHandlers> = {}): Promise<TestListener> {
  const server = newServer();
  addServices(server, { identity: { Probe: async () => ({}) }, ...handlers }, { log: silent });
  return disposable(await listen(server, socketPath));
}

async function probe(socketPath: string): Promise<void> {
  using client = connectDriver(socketPath);
  await client.identity.Probe({});
}

/** Leaves a socket that nobody serves, as a process does that is killed. */
async function leaveSocket(socketPath: string): Promise<void> {
  const program = `require('node:net').createServer().listen(${JSON.stringify(socketPath)}, () => console.log('up'))`;
  const child = spawn(process.execPath, ['--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.ok(statSync(socketPath).isSocket());
}

describe('listen', () => {
  test('O02 the socket is for root alone, and nothing lies beside it, while it is served and after', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    await using listener = await serve(socketPath);
    assert.equal(statSync(socketPath).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(scratch.path), ['csi.sock']);
    await probe(socketPath);
    await listener.close(1_000);
    assert.deepEqual(readdirSync(scratch.path), []);
  });

  test('O02 whoever watches the directory, as the kubelet does, sees hidden names until the socket is served', async () => {
    using scratch = new Scratch('wire');
    using seen = new WatchedDirectory(scratch.path);
    await using _listener = await serve(scratch.join('csi.sock'));
    await eventually(() => assert.ok(seen.names.includes('csi.sock')));
    assert.deepEqual(
      seen.names.filter((name) => !name.startsWith('.')),
      ['csi.sock'],
    );
  });

  test('O02 a socket left by a killed process is replaced, also one it had not yet renamed', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    await leaveSocket(socketPath);
    await leaveSocket(scratch.join('.csi.sock'));
    await using _listener = await serve(socketPath);
    await probe(socketPath);
  });

  test('a socket that somebody serves is an error, and goes on being served', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    await using _listener = await serve(socketPath);
    await assert.rejects(serve(socketPath), /Another process serves .*csi\.sock/);
    await probe(socketPath);
  });

  test('a file that is no socket is left alone', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    writeFileSync(socketPath, 'data');
    await assert.rejects(serve(socketPath), /is not a socket/);
    assert.equal(statSync(socketPath).size, 4);
  });

  test('a path that is too long for a socket, and a directory that is not there, are errors with the path', async () => {
    using scratch = new Scratch('wire');
    await assert.rejects(serve(scratch.join(`${'x'.repeat(108)}.sock`)), /too long/);
    await assert.rejects(
      serve(scratch.join('missing', 'csi.sock')),
      /The directory .*missing of the socket .* does not exist/,
    );
  });

  test('a path with spaces and other characters', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('ä %41#?:&.sock');
    await using _listener = await serve(socketPath);
    assert.ok(existsSync(socketPath));
    const socket = connect(socketPath);
    await once(socket, 'connect');
    socket.destroy();
  });

  test('closing does not touch a socket that somebody else has put in its place', async () => {
    using scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    await using first = await serve(socketPath);
    await using other = createServer();
    other.listen(scratch.join('other.sock'));
    await once(other, 'listening');
    renameSync(scratch.join('other.sock'), socketPath);
    await first.close(1_000);
    assert.ok(existsSync(socketPath));
  });
});

describe('close', () => {
  /** A server with one call that runs until it is let go. */
  async function withRunningCall(scratch: Scratch) {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let started = 0;
    const DeleteVolume = async () => {
      started++;
      await held;
      return {};
    };
    const listener = await serve(scratch.join('csi.sock'), { controller: { DeleteVolume } });
    const client = connectDriver(scratch.join('csi.sock'));
    const call = client.controller.DeleteVolume({ volume_id: 'a' });
    await until(() => started === 1);
    return { listener, client, call, release };
  }

  test('lets a running call finish, and takes no new ones', async () => {
    using scratch = new Scratch('wire');
    const { listener, client, call, release } = await withRunningCall(scratch);
    await using _listener = listener;
    using _client = client;
    const closed = listener.close(60_000);
    await until(() => !existsSync(scratch.join('csi.sock')));
    await assert.rejects(probe(scratch.join('csi.sock')), CallError);
    release();
    assert.deepEqual(await call, {});
    await closed;
  });

  test('does not wait for a call that runs longer than its grace', async () => {
    using scratch = new Scratch('wire');
    const { listener, client, call, release } = await withRunningCall(scratch);
    await using _listener = listener;
    using _client = client;
    const failed = assert.rejects(call, CallError);
    await listener.close(50);
    await failed;
    release();
  });

  test('does not wait for clients that are connected and idle', async () => {
    using scratch = new Scratch('wire');
    await using listener = await serve(scratch.join('csi.sock'));
    using client = connectDriver(scratch.join('csi.sock'));
    await client.identity.Probe({});
    await listener.close(60_000);
  });
});

describe('registration with the kubelet', () => {
  /** What the kubelet sees and what the operator reads. */
  async function registered(scratch: Scratch) {
    const log: LogLine[] = [];
    const socketPath = scratch.join('holdfast.csi.dev-reg.sock');
    const listener = disposable(
      await serveRegistration({
        socketPath,
        driverName: 'holdfast.csi.dev',
        endpointPath: '/var/lib/kubelet/plugins/holdfast.csi.dev/csi.sock',
        log: pino({ level: 'info' }, { write: (line: string) => log.push(JSON.parse(line)) }),
      }),
    );
    return { log, socketPath, listener, client: connectDriver(socketPath) };
  }

  test('GetInfo says what the driver is, on a socket of its own for root alone', async () => {
    using scratch = new Scratch('wire');
    const { socketPath, listener, client } = await registered(scratch);
    await using _listener = listener;
    assert.equal(statSync(socketPath).mode & 0o777, 0o600);
    assert.deepEqual(await client.registration.GetInfo({}), {
      type: 'CSIPlugin',
      name: 'holdfast.csi.dev',
      endpoint: '/var/lib/kubelet/plugins/holdfast.csi.dev/csi.sock',
      supported_versions: ['1.0.0'],
    });
    client.close();
    await listener.close(1_000);
    assert.equal(existsSync(socketPath), false);
  });

  test('a failure that the kubelet reports is an error in the log, with its words however long', async () => {
    using scratch = new Scratch('wire');
    const { log, listener, client } = await registered(scratch);
    await using _listener = listener;
    using _client = client;
    const error = 'no plugin for '.repeat(50);
    await client.registration.NotifyRegistrationStatus({ plugin_registered: false, error });
    await client.registration.NotifyRegistrationStatus({ plugin_registered: true });
    const told = log.filter((line) => line.code === undefined);
    assert.deepEqual(
      told.map(({ level, msg, reason }) => ({ level, msg, reason })),
      [
        { level: 50, msg: 'the kubelet refused the driver', reason: error },
        { level: 30, msg: 'registered with the kubelet', reason: undefined },
      ],
    );
  });

  test('the CSI services are not on this socket', async () => {
    using scratch = new Scratch('wire');
    const { listener, client } = await registered(scratch);
    await using _listener = listener;
    using _client = client;
    await assert.rejects(
      client.identity.Probe({}),
      (error) => error instanceof CallError && error.code === 'UNIMPLEMENTED',
    );
  });
});
