import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer } from 'node:net';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

const directoryPool = (scratch: Scratch) => `pools:\n  default:\n    directory: ${scratch.join('pool')}\n`;
const socketOf = (scratch: Scratch) => scratch.join('data', 'admin.sock');

describe("the operator's socket", () => {
  test('O02: is for root alone, lies away from the CSI socket, and goes with the driver', async () => {
    using scratch = new Scratch('admin');
    const driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    await driver.logged('listening for the operator');
    assert.equal(statSync(socketOf(scratch)).mode & 0o777, 0o600);
    const names = readdirSync(dirname(driver.socketPath)).filter((name) => name.endsWith('.sock'));
    assert.deepEqual(names, ['csi.sock']);
    await driver.stop();
    assert.ok(!existsSync(socketOf(scratch)));
  });

  test('nobody but root gets through', async () => {
    using scratch = new Scratch('admin');
    chmodSync(scratch.path, 0o755);
    const environment = { HOLDFAST_ADMIN_SOCKET: scratch.join('open', 'admin.sock') };
    mkdirSync(scratch.join('open'), { mode: 0o755 });
    await using driver = await DriverProcess.start(scratch, { environment });
    await driver.logged('listening for the operator');
    const asNobody = await holdfast(['trash'], environmentFor(scratch, { environment }), { uid: 65_534 });
    assert.equal(asNobody.code, 1);
    assert.match(asNobody.stderr, /^holdfast: .*EACCES.*Run it as root\.$/m);
  });

  test('one that a killed driver left is replaced', async () => {
    using scratch = new Scratch('admin');
    const options = { config: directoryPool(scratch) };
    await (await DriverProcess.start(scratch, options)).kill();
    await using driver = await DriverProcess.start(scratch, options);
    await driver.logged('listening for the operator');
    assert.equal((await holdfast(['trash'], environmentFor(scratch, options))).code, 0);
  });

  test('one that somebody else serves is an error, and volumes come and go all the same', async () => {
    using scratch = new Scratch('admin');
    mkdirSync(scratch.join('data'));
    const other = createServer().listen(socketOf(scratch));
    await once(other, 'listening');
    try {
      await using driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
      await driver.logged("cannot serve the operator's commands");
      const line = driver.log().find(({ msg }) => msg === "cannot serve the operator's commands");
      assert.equal(line?.['level'], 'error');
      assert.match(String(line?.['reason']), /^Another process serves .*admin\.sock/);
      using client = driver.connect();
      assert.equal((await client.identity.Probe({})).ready?.value, true);
    } finally {
      other.close();
    }
  });

  test('goes from one driver to the next together with the pools', async () => {
    using scratch = new Scratch('admin');
    const config = directoryPool(scratch);
    const first = await DriverProcess.start(scratch, { config });
    await first.logged('listening for the operator');
    await using second = DriverProcess.spawn(scratch, { config, socketPath: scratch.join('second.sock') });
    await second.listening();
    await first.stop();
    await second.ready();
    await second.logged('listening for the operator');
    assert.equal((await holdfast(['trash'], environmentFor(scratch, { config }))).code, 0);
  });

  test('what it does not know it refuses, with a code and a message', async () => {
    using scratch = new Scratch('admin');
    await using driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    await driver.logged('listening for the operator');
    for (const [method, path, status, code] of [
      ['GET', '/', 404, 'UNIMPLEMENTED'],
      ['PUT', '/v1/trash', 404, 'UNIMPLEMENTED'],
      ['POST', '/v1/trash/../../etc/restore', 404, 'UNIMPLEMENTED'],
      ['DELETE', '/v1/trash/', 404, 'UNIMPLEMENTED'],
      ['DELETE', '/v1/trash/vol-x', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/trash/%2e%2e%2fx/restore', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/trash/%zz/restore', 400, 'INVALID_ARGUMENT'],
      ['GET', `/v1/volumes/vol-${'a'.repeat(26)}/holders`, 404, 'NOT_FOUND'],
      ['DELETE', '/v1/trash?everything', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions?pool=default&path=x&namespace=a&claim=b', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions?pool=default&path=/x%00&namespace=a&claim=b', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions?pool=default&path=/x&namespace=a&claim=b&sizeBytes=-1', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions?pool=default&path=/x&namespace=../a&claim=b', 400, 'INVALID_ARGUMENT'],
      ['POST', '/v1/adoptions?pool=default&path=/x&namespace=a&claim=b', 409, 'FAILED_PRECONDITION'],
      ['POST', '/v1/volumes/vol-x/release', 400, 'INVALID_ARGUMENT'],
      ['POST', `/v1/volumes/vol-${'a'.repeat(26)}/release?to=/x`, 404, 'NOT_FOUND'],
    ] as const) {
      const answer = await ask(socketOf(scratch), method, path);
      assert.deepEqual([answer.status, answer.body.code], [status, code], `${method} ${path}`);
      assert.notEqual(answer.body.message, '');
    }
  });

  test('what is no request it refuses as well, with a code and a message', async () => {
    using scratch = new Scratch('admin');
    await using driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    await driver.logged('listening for the operator');
    const host = 'HTTP/1.1\r\nhost: x\r\n';
    for (const [words, status] of [
      ['hello\r\n\r\n', 400],
      [`GET /v1/trash and more ${host}\r\n`, 400],
      [`GET /v1/trash ${host}no colon\r\n\r\n`, 400],
      [`POST /v1/trash ${host}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`, 400],
      [`CONNECT x:1 ${host}\r\n`, 405],
      [`GET /v1/trash ${host}x: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
      // These are requests, only unusual ones.
      ['GET /v1/nothing HTTP/1.1\r\nconnection: close\r\n\r\n', 404],
      [`GET /v1/nothing ${host}connection: close\r\nexpect: a miracle\r\n\r\n`, 404],
      [`GET /v1/nothing ${host}connection: upgrade, close\r\nupgrade: websocket\r\n\r\n`, 404],
    ] as const) {
      const answer = await say(socketOf(scratch), words);
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), words.slice(0, 60));
      const { code, message } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
      assert.match(code, /^[A-Z_]+$/);
      assert.match(message, /^[A-Z].*[.?]$/);
    }
    assert.equal((await ask(socketOf(scratch), 'GET', '/v1/trash')).status, 200);
  });

  test('a request gets its answer, whatever comes after it on the same connection', async () => {
    using scratch = new Scratch('admin');
    await using driver = await DriverProcess.start(scratch, { config: directoryPool(scratch) });
    await driver.logged('listening for the operator');
    const path = `/v1/volumes/vol-${'a'.repeat(26)}/holders`;
    const answer = await say(socketOf(scratch), `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n\x1f\x86 no request`);
    assert.match(answer, /^HTTP\/1\.1 404 .*"NOT_FOUND"/s);
  });
});

/** All that is answered to these words, until the server closes. */
async function say(socketPath: string, words: string): Promise<string> {
  const socket = connect(socketPath);
  socket.write(words);
  let answer = '';
  for await (const chunk of socket.setEncoding('utf8')) answer += chunk;
  return answer;
}

async function ask(socketPath: string, method: string, path: string) {
  const call = request({ socketPath, method, path, agent: false }).end();
  const [response] = await once(call, 'response');
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, body: JSON.parse(text) };
}
