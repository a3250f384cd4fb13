import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { buildPage } from '../../scripts/build.ts';
import { type Hello, type Items, itemsOf } from '../../src/page/messages.ts';
import { LinkedNode, volumeOn } from '../fleet/support/fleet.ts';
import { holdfast } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { proxyPath } from './support/api-proxy.ts';
import { get, streamed } from './support/http.ts';
import { crowdNames, PageScene } from './support/scene.ts';

/** The page that a server from the sources serves. */
await buildPage(fileURLToPath(new URL('../../dist/page', import.meta.url)));

const largestKibibytes = 100;

describe('the page of the controller', () => {
  test('comes without a token, with a strict policy, without inline code, and is small', async () => {
    await using scene = await PageScene.start([]);
    const at = (path: string) => `${scene.proxy.origin}${proxyPath}${path}`;
    let bytes = 0;
    for (const [path, type] of [
      ['/ui/', /^text\/html/],
      ['/ui/?view=volumes&q=x', /^text\/html/],
      ['/ui/page.js', /^text\/javascript/],
      ['/ui/page.css', /^text\/css/],
    ] as const) {
      const got = await get(at(path), { headers: { 'accept-encoding': 'gzip' } });
      assert.equal(got.status, 200);
      assert.match(String(got.headers['content-type']), type);
      assert.equal(got.headers['content-encoding'], 'gzip');
      const policy = String(got.headers['content-security-policy']);
      for (const rule of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
      ]) {
        assert.ok(policy.split('; ').includes(rule), `${rule} is not in ${policy}`);
      }
      assert.ok(!policy.includes('unsafe'));
      assert.equal(got.headers['set-cookie'], undefined);
      assert.equal(got.headers['x-content-type-options'], 'nosniff');
      assert.equal(got.headers['referrer-policy'], 'no-referrer');
      bytes += gzipSync(got.text).length;
      if (!path.startsWith('/ui/page')) {
        assert.doesNotMatch(got.text, /<script(?![^>]* src="page\.js")/);
        assert.doesNotMatch(got.text, /<style|\son[a-z]+=|https?:\/\/(?!www\.w3\.org)/);
      }
    }
    assert.ok(bytes < largestKibibytes * 1024, `${Math.round(bytes / 1024)} KiB compressed`);
    for (const path of ['/ui/../package.json', '/ui/%2e%2e/LICENSE', '/ui/page.js/', '/ui/constructor', '/ui']) {
      const got = await get(at(path));
      assert.ok([401, 404].includes(got.status), `${path}: ${got.status}`);
    }
    assert.equal((await get(at('/ui/'), { method: 'POST' })).status, 405);
  });

  test('its stream needs a token, tells what the viewer may, and has only the lists that it may', async () => {
    await using scene = await PageScene.start(crowdNames(3));
    scene.startCrowd(3, 4);
    const stream = `${scene.proxy.origin}${proxyPath}/v1/stream`;
    assert.equal((await get(stream)).status, 401);
    const mallory = scene.api.token({ user: 'mallory', audience: 'holdfast.csi.dev/view' });
    const refused = await get(stream, { headers: { 'x-holdfast-token': mallory } });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /mallory may not look at the fleet/);
    const token = scene.token('alice', ['restore']);
    const elsewhere = { 'x-holdfast-token': token, 'sec-fetch-site': 'cross-site' };
    assert.notEqual((await get(stream, { headers: elsewhere })).status, 200);

    const keysOf = (messages: readonly { kind: string }[], list: string) =>
      messages.flatMap((message) => {
        const items = message as Items;
        return items.kind === 'items' && items.list === list ? [...itemsOf(items)].map(([key]) => key) : [];
      });
    const all = await streamed(stream, token, (messages) => keysOf(messages, 'volumes').length === 12);
    const [hello] = all;
    assert.equal(hello?.kind, 'hello');
    assert.deepEqual((hello as Hello).may, ['restore']);
    assert.equal((hello as Hello).scope, 'fleet');
    assert.equal(new Set(keysOf(all, 'nodes')).size, 3);

    scene.api.known.viewers.add('bob volumes');
    const bob = scene.api.token({ user: 'bob', audience: 'holdfast.csi.dev/view' });
    const some = await streamed(stream, bob, (messages) => keysOf(messages, 'volumes').length >= 12);
    assert.deepEqual((some[0] as Hello).lists, ['volumes']);
    assert.deepEqual([keysOf(some, 'nodes'), keysOf(some, 'pools'), keysOf(some, 'trash')], [[], [], []]);
    assert.ok(!scene.controller.output().includes(token));
  });

  test('changes need the right of each, POST, and a volume or a node that is there', async () => {
    await using scene = await PageScene.start(['node-a', 'node-gone']);
    await using node = await LinkedNode.start(scene.api, 'node-a', [scene.controller], {}, ['default', 'fast']);
    await scene.controller.logged('inventory complete', { node: 'node-a' });
    using client = scene.controller.connect();
    const deleted = async (name: string) => {
      const { volume } = await client.controller.CreateVolume({
        ...volumeOn('node-a', name),
        parameters: { undelete: '1h' },
      });
      const id = volume?.volume_id ?? '';
      await client.controller.DeleteVolume({ volume_id: id });
      return id;
    };
    const [first, second] = [await deleted('pvc-1'), await deleted('pvc-2')];
    const looker = scene.token('looker');
    const operator = scene.token('operator', ['restore', 'purge', 'cancel', 'forget']);
    const change = (path: string, token: string, asking: { method?: string; site?: string } = {}) =>
      get(`${scene.proxy.origin}${proxyPath}/v1/${path}`, {
        method: asking.method ?? 'POST',
        headers: {
          'x-holdfast-token': token,
          ...(asking.site === undefined ? {} : { 'sec-fetch-site': asking.site }),
        },
      });
    const restore = `trash/restore?node=node-a&volume=${first}&output=json`;
    for (const path of [restore, `trash/purge?node=node-a&volume=${first}`, 'nodes/forget?node=node-gone']) {
      const refused = await change(path, looker);
      assert.equal(refused.status, 403, refused.text);
      assert.match(refused.text, /looker may not change (trash|nodes): RBAC lets it no \\?"(update|delete)/);
    }
    assert.equal((await change(restore, operator, { method: 'GET' })).status, 400);
    assert.notEqual((await change(restore, operator, { site: 'cross-site' })).status, 200);
    assert.equal((await change('trash/purge', operator)).status, 400);
    assert.equal((await change('trash/purge?node=node-a&volume=', operator)).status, 400);
    assert.equal((await change(`trash/restore?node=node-x&volume=${first}`, operator)).status, 404);
    assert.match((await change(`trash/restore?node=node-gone&volume=${first}`, operator)).text, /node-gone is away/);

    const restored = await change(restore, operator);
    assert.equal(restored.status, 200, restored.text);
    assert.deepEqual(JSON.parse(outputOf(restored.text)), {
      id: first,
      name: 'pvc-1',
      pool: 'default',
    });
    assert.match((await change(restore, operator)).text, /exists: there is nothing to restore/);
    // By its name, from any node: as a person types it.
    const purged = await change('trash/purge?volume=pvc-2&node=node-a', operator);
    assert.match(purged.text, new RegExp(`^1${second} is permanently removed\\.$`, 'm'), purged.text);
    const again = await change(`trash/purge?node=node-a&volume=${second}`, operator);
    assert.equal(again.status, 404, again.text);

    // A volume in use, whose move waits for its end.
    const used = new TestVolume(node.scratch, 'pvc-3');
    const { volume } = await client.controller.CreateVolume(volumeOn('node-a', used.name));
    const usedId = volume?.volume_id ?? '';
    using local = node.driver.connect();
    await used.stage(local, usedId);
    assert.match((await change('moves/cancel?volume=pvc-3', looker)).text, /looker may not change moves/);
    const idle = await change('moves/cancel?volume=pvc-3&node=node-a', operator);
    assert.equal(idle.status, 404, idle.text);
    assert.match(idle.text, /is not moving/);
    assert.match((await change('moves/cancel', operator)).text, /move cancel needs a volume/);
    const purge = await change(`trash/purge?volume=${usedId}&node-is-lost=node-c`, operator);
    assert.match(purge.text, /only move cancel, move finish and trash restore take --node-is-lost/);
    assert.match((await change(`moves/cancel?volume=${usedId}&undo=true`, operator)).text, /takes neither/);
    const started = await holdfast(['move', usedId, '--to-pool', 'fast', '--json'], node.driver.environment);
    assert.equal(started.code, 0, started.stderr);
    const listed = await get(`${scene.proxy.origin}${proxyPath}/v1/moves?node=node-a&output=json`, {
      headers: { 'x-holdfast-token': operator },
    });
    assert.deepEqual(
      JSON.parse(outputOf(listed.text)).moves.map(({ from, id, node: of, state, to }: Record<string, string>) => [
        ...[of, id, from, to, state],
      ]),
      [['node-a', usedId, 'default', 'fast', 'running']],
    );
    const cancelled = await change('moves/cancel?volume=pvc-3', operator);
    assert.equal(cancelled.status, 200, cancelled.text);
    assert.match(
      cancelled.text,
      new RegExp(`^1${usedId} stays in pool default: the move to fast is cancelled\\.$`, 'm'),
    );
    assert.match(
      (await change(`moves/cancel?volume=${usedId}`, operator)).text,
      /does not move on the nodes that answered/,
    );
    await used.unstage(local, usedId);

    assert.match((await change('nodes/forget?node=node-a', operator)).text, /has a link to the controller/);
    const planned = await change('nodes/forget?node=node-gone&dry-run=true&output=json', operator);
    assert.equal(JSON.parse(outputOf(planned.text)).done, 'nothing', planned.text);
    await eventually(() => {
      const log = scene.controller.log().filter((line) => line['change'] === 'purge' && line['code'] === 'OK');
      assert.deepEqual([log[0]?.['user'], log[0]?.['volume']], ['operator', 'pvc-2']);
    });
  });
});

/** The lines of standard output; each line of an answer begins with a mark that says where it belongs. */
function outputOf(text: string): string {
  const lines = text.split('\n').filter((line) => line.startsWith('1'));
  return lines.map((line) => line.slice(1)).join('\n');
}
