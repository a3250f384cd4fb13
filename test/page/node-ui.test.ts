import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildPage } from '../../scripts/build.ts';
import { itemsOf } from '../../src/page/messages.ts';
import { DriverProcess } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';
import { get, streamed } from './support/http.ts';
import { NodeUi } from './support/node-ui.ts';

await buildPage(fileURLToPath(new URL('../../dist/page', import.meta.url)));

describe('holdfast ui', () => {
  test('its address opens once, on this machine, under its own name; changes go through the admin socket', async () => {
    using scratch = new Scratch('node-ui');
    await using driver = await DriverProcess.start(scratch, {
      config: `pools:\n  default: { directory: ${scratch.join('pool')}, undelete: 1h }\n`,
    });
    using client = driver.connect();
    const { volume } = await client.controller.CreateVolume({
      name: 'pvc-1',
      capacity_range: { required_bytes: 64n << 20n },
      volume_capabilities: [{ mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    });
    const id = volume?.volume_id ?? '';
    await client.controller.DeleteVolume({ volume_id: id });
    await using ui = new NodeUi(driver.environment);
    const [address = ''] = await ui.addresses(1);
    const { hash, hostname, origin, port } = new URL(address);
    assert.equal(hostname, '127.0.0.1');
    const code = hash.replace('#code=', '');
    assert.equal((await get(`${origin}/ui/`)).status, 200);
    assert.equal((await get(`${origin}/`)).headers['location'], '/ui/');

    const open = (headers: Record<string, string>) => get(`${origin}/v1/session`, { method: 'POST', headers });
    assert.equal((await open({ 'x-holdfast-code': `${code}x` })).status, 401);
    assert.equal((await open({ 'x-holdfast-code': code, 'sec-fetch-site': 'cross-site' })).status, 403);
    // A name of another site that leads here (DNS rebinding).
    for (const host of [`evil.example:${port}`, '127.0.0.1', `127.0.0.1:${Number(port) + 1}`]) {
      assert.equal((await open({ 'x-holdfast-code': code, host })).status, 421, host);
    }
    const opened = await open({ 'x-holdfast-code': code });
    assert.equal(opened.status, 200);
    const { token } = JSON.parse(opened.text);
    assert.equal((await open({ 'x-holdfast-code': code })).status, 401);
    assert.equal((await ui.addresses(2)).length, 2);
    assert.ok(!ui.output.includes(token));

    const authorised = { 'x-holdfast-token': token };
    for (const path of ['v1/stream', 'v1/disks', `v1/who?volume=${id}`]) {
      assert.equal((await get(`${origin}/${path}`)).status, 401, path);
      assert.equal((await get(`${origin}/${path}`, { headers: { 'x-holdfast-token': 'x' } })).status, 401, path);
    }
    const restore = `${origin}/v1/trash/restore?volume=${id}`;
    assert.equal((await get(restore, { method: 'POST' })).status, 401);
    assert.equal((await get(restore, { headers: authorised })).status, 404);
    const keysOf = (messages: Awaited<ReturnType<typeof streamed>>, list: string) =>
      messages.flatMap((message) =>
        message.kind === 'items' && message.list === list ? [...itemsOf(message)].map(([key]) => key) : [],
      );
    const before = await streamed(`${origin}/v1/stream`, token, (messages) => keysOf(messages, 'trash').length === 1);
    assert.equal(before[0]?.kind === 'hello' && before[0].scope, 'node');
    const restored = await get(restore, { method: 'POST', headers: authorised });
    assert.match(restored.text, new RegExp(`^1.*"id":"${id}".*\nx0$`, 'm'), restored.text);
    const after = await streamed(`${origin}/v1/stream`, token, (messages) => keysOf(messages, 'volumes').length === 1);
    assert.match(keysOf(after, 'volumes')[0] ?? '', new RegExp(`/${id}$`));
    // Without an id everything would go.
    for (const query of ['', '?volume=']) {
      const purge = await get(`${origin}/v1/trash/purge${query}`, { method: 'POST', headers: authorised });
      assert.notEqual(purge.status, 200);
    }
    const disks = await get(`${origin}/v1/disks?output=json`, { headers: authorised });
    assert.ok(Array.isArray(JSON.parse(disks.text.split('\n')[0]?.slice(1) ?? '').disks));
    assert.equal(await ui.end(), 0);
  });
});
