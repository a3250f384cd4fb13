import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { driverCommand } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble, viewAudience } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { ask, Viewer, viewed } from './support/viewer.ts';

describe('whoever comes to look at the fleet', () => {
  test('without a token of its audience, or without the right, nobody sees anything; what is no question is refused', async () => {
    using scratch = new Scratch('hostile-view');
    await using api = await ApiDouble.start();
    await using controller = await ControllerProcess.start(scratch, api, 'only', driverCommand, viewed);
    const withToken = (token: string) => ({ headers: { 'x-holdfast-token': token } });
    const good = new Viewer(api, 'alice', ['nodes', 'volumes']);
    const rows: readonly [object, number, RegExp][] = [
      [{}, 401, /^holdfast: This is not a token\.$/],
      [withToken('garbage'), 401, /This is not a token/],
      [withToken(api.token({ node: 'a' })), 401, /The token is not for holdfast\.csi\.dev\/view\.$/],
      [withToken(api.token({ user: 'alice', audience: 'https://kubernetes.default.svc' })), 401, /is not for holdfast/],
      [withToken(api.token({ user: 'alice', audience: viewAudience, lifeSeconds: -1 })), 401, /has expired/],
      [withToken(`${good.token}x`), 401, /Kubernetes does not know the token/],
      [{ headers: { authorization: 'Basic YTpi' } }, 401, /This is not a token/],
      [
        withToken(api.token({ user: 'mallory', audience: viewAudience })),
        403,
        /^holdfast: mallory may not look at nodes/,
      ],
    ];
    for (const [asking, status, message] of rows) {
      const seen = await ask(api, controller, '/v1/nodes', asking);
      assert.deepEqual([seen.status, seen.result, seen.exitCode], [status, '', 1], seen.problems);
      assert.match(seen.problems, message);
    }
    assert.equal((await ask(api, controller, '/v1/nodes', withToken(good.token))).status, 200);
    assert.equal(
      (await ask(api, controller, '/v1/nodes', { headers: { authorization: `Bearer ${good.token}` } })).status,
      200,
    );
    const questions: readonly [string, number, RegExp][] = [
      ['/', 404, /There is \/v1\/nodes, /],
      ['/v1/../v1/secrets', 404, /There is/],
      ['/v1/volumes?wait=0', 400, /wait: must be at least 1/],
      ['/v1/volumes?wait=1e9', 400, /wait: /],
      ['/v1/volumes?purge=1', 400, /has unknown keys: 'purge'/],
      ['/v1/volumes?output=yaml', 400, /output: must be one of table, json/],
      ['/v1/nodes?volume=x', 400, /nodes takes no volume/],
      [`/v1/volumes?volume=${'x'.repeat(350)}`, 400, /No volume has such a long name/],
    ];
    for (const [path, status, message] of questions) {
      const seen = await good.see(controller, path);
      assert.equal(seen.status, status, `${path}: ${seen.problems}`);
      assert.match(seen.problems, message);
    }
    for (const method of ['POST', 'DELETE', 'PUT']) {
      const seen = await ask(api, controller, '/v1/nodes', { ...withToken(good.token), method });
      assert.deepEqual([seen.status, seen.problems], [400, 'holdfast: Only GET is answered.']);
    }
    const json = await ask(api, controller, '/v1/nodes?output=json', {});
    assert.deepEqual(JSON.parse(json.problems), { code: 'FAILED_PRECONDITION', message: 'This is not a token.' });
    // What Kubernetes cannot be asked is not let in.
    api.known.refused.add('/subjectaccessreviews');
    assert.equal((await good.see(controller, '/v1/nodes')).status, 503);
    api.known.refused.clear();
    await eventually(() => assert.match(controller.output(), /"view":"\/v1\/nodes","user":"mallory"|request refused/));
    assert.ok(!controller.output().includes(good.token));
  });

  test('garbage, long heads and a crowd that says nothing keep nobody out', async () => {
    using scratch = new Scratch('hostile-view-crowd');
    await using api = await ApiDouble.start();
    await using controller = await ControllerProcess.start(scratch, api, 'only', driverCommand, viewed);
    const port = Number((await controller.logged('listening for viewers of the fleet'))['port']);
    const viewer = new Viewer(api, 'alice', ['nodes']);
    const sockets: Socket[] = [];
    try {
      for (let index = 0; index < 400; index++) {
        const socket = connect(port, '127.0.0.1');
        socket.on('error', () => undefined);
        if (index % 2 === 0) socket.write(randomBytes(100));
        sockets.push(socket);
      }
      const plain = ['GET /v1/nodes HTTP/1.1\r\nx: ', 'GET /v1/nodes HTTP/1.1\r\nhost: a\r\n\r\n'];
      for (const text of [
        `${plain[0]}${'y'.repeat(100_000)}`,
        `${plain[1]}`.repeat(50),
        'CONNECT a:1 HTTP/1.1\r\n\r\n',
        '\0'.repeat(5000),
      ]) {
        const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
        socket.on('error', () => undefined);
        socket.write(text);
        sockets.push(socket);
      }
      assert.equal((await viewer.see(controller, '/v1/nodes')).status, 200);
      // Garbage costs the API server nothing.
      const { reviews } = api;
      await ask(api, controller, '/v1/nodes', { headers: { 'x-holdfast-token': 'a.b.c' } });
      assert.equal(api.reviews, reviews);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });
});
