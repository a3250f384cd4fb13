import assert from 'node:assert/strict';
import { generateKeyPairSync, verify } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { z } from 'zod';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { OutcomeUnknown } from '../../../cloud-disk/repeat.ts';
import { diskSchema, pathIn, readDisk } from './answers.ts';
import { GceClient, GceRefusal } from './client.ts';
import { readCredentialFile, TokenSource } from './credentials.ts';
import { GceMetadata } from './metadata.ts';

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

interface Request {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Answers requests as a test says. */
let answers: ((request: Request, response: ServerResponse) => void)[] = [];
let requests: Request[] = [];
const server = createServer(async (message, response) => {
  let body = '';
  for await (const chunk of message) body += String(chunk);
  const request = { path: message.url ?? '', headers: message.headers, body };
  requests.push(request);
  const answer = answers.length > 1 ? answers.shift() : answers[0];
  answer?.(request, response);
});
let url = '';
let directory = '';

before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  directory = mkdtempSync('/var/tmp/holdfast-gce-');
});
after(() => {
  server.close();
  rmSync(directory, { recursive: true });
});
beforeEach(() => {
  answers = [];
  requests = [];
});

const secrets = () => ({
  ...{ type: 'authorized_user', client_id: 'id', client_secret: 'secret', refresh_token: 'refresh' },
});
const queue = new DiskQueue('test', 1);
const send =
  (content: object, status = 200) =>
  (_request: Request, response: ServerResponse) => {
    response.writeHead(status, { 'metadata-flavor': 'Google' });
    response.end(JSON.stringify(content));
  };
const token = (text: string, seconds = 3600) => send({ access_token: text, expires_in: seconds });

function tokensOf(content: object | undefined): TokenSource {
  const path = join(directory, 'key.json');
  if (content !== undefined) writeFileSync(path, JSON.stringify(content));
  const environment = content === undefined ? {} : { GOOGLE_APPLICATION_CREDENTIALS: path };
  return new TokenSource({ environment, queue, metadata: new GceMetadata(new URL(url).host) });
}

describe('tokens of Google', () => {
  const account = () => ({
    ...{ type: 'service_account', project_id: 'my-project', client_email: 'a@b.example', private_key: pem },
    ...{ private_key_id: 'key-1', token_uri: `${url}/token` },
  });

  test('of a service account: the claims are signed, the token is kept until shortly before its end', async () => {
    answers = [token('one', 100), token('two'), token('three')];
    const tokens = tokensOf(account());
    assert.equal(await tokens.project(), 'my-project');
    assert.equal(await tokens.get(), 'one');
    const values = new URLSearchParams(requests[0]?.body);
    assert.equal(values.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer');
    const [header = '', claims = '', signature = ''] = (values.get('assertion') ?? '').split('.');
    const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
    assert.deepEqual(read(header), { alg: 'RS256', typ: 'JWT', kid: 'key-1' });
    assert.equal(read(claims)['iss'], 'a@b.example');
    assert.equal(read(claims)['aud'], `${url}/token`);
    assert.ok(verify('sha256', Buffer.from(`${header}.${claims}`), publicKey, Buffer.from(signature, 'base64url')));
    assert.deepEqual([await tokens.get(), await tokens.get()], ['two', 'two']);
    tokens.forget();
    assert.equal(await tokens.get(), 'three');
    assert.equal(requests.length, 3);
  });

  test('of a person: the refresh token is exchanged', async () => {
    answers = [token('one')];
    assert.equal(await tokensOf({ ...secrets(), token_uri: `${url}/token` }).get(), 'one');
    assert.equal(new URLSearchParams(requests[0]?.body).get('refresh_token'), 'refresh');
  });

  test('of another issuer: its token is exchanged, and the account is impersonated', async () => {
    answers = [token('federated'), send({ accessToken: 'last', expireTime: '2100-01-01T00:00:00Z' })];
    const file = join(directory, 'subject');
    writeFileSync(file, JSON.stringify({ id: 'subject-token' }));
    const tokens = tokensOf({
      ...{ type: 'external_account', audience: '//iam.googleapis.com/pool', token_url: `${url}/sts` },
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      service_account_impersonation_url: `${url}/impersonate`,
      credential_source: { file, format: { type: 'json', subject_token_field_name: 'id' } },
    });
    assert.equal(await tokens.get(), 'last');
    assert.equal(new URLSearchParams(requests[0]?.body).get('subject_token'), 'subject-token');
    assert.equal(requests[1]?.headers.authorization, 'Bearer federated');
  });

  test('of the metadata service, which must be that of Google', async () => {
    answers = [token('machine')];
    assert.equal(await tokensOf(undefined).get(), 'machine');
    assert.equal(requests[0]?.path, '/computeMetadata/v1/instance/service-accounts/default/token');
    assert.equal(requests[0]?.headers['metadata-flavor'], 'Google');
    answers = [(_request, response) => void response.end('{"access_token":"x","expires_in":3600}')];
    await assert.rejects(tokensOf(undefined).get(), /is not the metadata service of Google/);
  });

  test('errors have nothing secret in them', async () => {
    answers = [send({ error: 'invalid_grant', error_description: pem }, 400)];
    for (const [content, message] of [
      [account(), /answered 400 \(invalid_grant\)/],
      [{ ...account(), private_key: 'SECRET-text' }, /its private_key is no key in PEM/],
      [{ type: 'service_account', private_key: pem }, /lacks client_email/],
      [{ type: 'impersonated_service_account', private_key: pem }, /of a type that is not read here/],
      [{ type: 'external_account', credential_source: { executable: { command: 'SECRET' } } }, /lacks audience/],
    ] as const) {
      await assert.rejects(tokensOf(content).get(), (error) => {
        assert.ok(error instanceof Error);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /PRIVATE KEY|SECRET/);
        return true;
      });
    }
    assert.throws(() => readCredentialFile('/a', '{"private_key": "SECRET'), {
      message: '/a is no file of credentials',
    });
  });

  test('a file that is named must be there', async () => {
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: join(directory, 'none'), HOME: directory };
    const tokens = new TokenSource({ environment, queue, metadata: new GceMetadata(new URL(url).host) });
    await assert.rejects(tokens.get(), /No credentials for Google: .*none/);
    assert.equal(requests.length, 0);
  });
});

describe('requests to Compute Engine', () => {
  const client = (pausesMs: readonly number[] = [1, 1]) =>
    new GceClient({ endpoint: new URL(url), tokens: tokensOf(undefined), timeoutMs: 5_000, pausesMs });
  const refuse = (status: number, reason: string) =>
    send({ error: { code: status, message: `it is ${reason}`, errors: [{ reason }] } }, status);
  const call = {
    action: 'attachDisk',
    method: 'POST',
    path: 'projects/p/a',
    query: { x: 'y' },
    body: { a: 1 },
  } as const;
  const paths = () => requests.filter(({ path }) => path.startsWith('/compute/')).map(({ path }) => new URL(path, url));

  test('are repeated with one id when answers are lost, and a later call has another', async () => {
    answers = [
      token('t'),
      (_request, response) => void response.socket?.destroy(),
      refuse(503, 'backendError'),
      send({ done: true }),
    ];
    const compute = client();
    assert.deepEqual(await compute.call(z.looseObject({ done: z.boolean() }), call), { done: true });
    await compute.call(z.looseObject({}), call);
    const ids = paths().map(({ searchParams }) => searchParams.get('requestId'));
    assert.equal(ids.length, 4);
    assert.equal(new Set(ids.slice(0, 3)).size, 1);
    assert.notEqual(ids[3], ids[0]);
    assert.equal(paths()[0]?.pathname, '/compute/v1/projects/p/a');
    assert.equal(requests[1]?.headers.authorization, 'Bearer t');
    assert.equal(requests[1]?.body, '{"a":1}');
  });

  test('wait when there are too many of them', async () => {
    answers = [token('t'), refuse(403, 'rateLimitExceeded'), refuse(429, 'x'), send({})];
    await client().call(z.looseObject({}), call);
    answers = [token('t'), refuse(403, 'rateLimitExceeded')];
    await assert.rejects(client().call(z.looseObject({}), call), GceRefusal);
  });

  test('wait for a token, too', async () => {
    answers = [send({}, 503), (_request, response) => void response.socket?.destroy(), token('t'), send({})];
    writeFileSync(join(directory, 'key.json'), JSON.stringify({ ...secrets(), token_uri: `${url}/token` }));
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: join(directory, 'key.json') };
    const tokens = new TokenSource({ environment, queue, metadata: new GceMetadata(undefined) });
    const compute = new GceClient({ endpoint: new URL(url), tokens, timeoutMs: 5_000, pausesMs: [1, 1] });
    await compute.call(z.looseObject({}), call);
  });

  test('get a new token once when the old one is refused', async () => {
    answers = [token('old'), refuse(401, 'authError'), token('new'), send({})];
    await client().call(z.looseObject({}), call);
    assert.equal(requests.at(-1)?.headers.authorization, 'Bearer new');
    answers = [token('t'), refuse(401, 'authError'), token('t'), refuse(401, 'authError')];
    await assert.rejects(client().call(z.looseObject({}), call), /refused attachDisk \(authError\)/);
  });

  test('have reasons of one form, and what cannot be read leaves the outcome open', async () => {
    answers = [token('t'), refuse(400, 'resourceInUseByAnotherResource')];
    await assert.rejects(client().call(z.looseObject({}), call), { reason: 'resourceinusebyanotherresource' });
    assert.equal(new GceRefusal('a', 'RESOURCE_NOT_FOUND', '').reason, 'resourcenotfound');
    answers = [token('t'), (_request, response) => void response.end('<html>')];
    await assert.rejects(client([]).call(z.looseObject({}), call), OutcomeUnknown);
    answers = [token('t'), refuse(404, '')];
    await assert.rejects(client([]).call(z.looseObject({}), call), { reason: 'notfound' });
    // A proxy's: the disk may be there.
    answers = [token('t'), (_request, response) => void response.writeHead(404).end('<html>')];
    await assert.rejects(client([]).call(z.looseObject({}), call), OutcomeUnknown);
  });
});

test('a disk is read with its state and its users', () => {
  const disk = (more: object) =>
    readDisk(
      diskSchema.parse({
        selfLink: 'https://www.googleapis.com/compute/v1/projects/p/zones/z-1/disks/d',
        ...{ status: 'READY', sizeGb: '8', creationTimestamp: '2026-01-01T00:00:00.000-00:00', labels: { a: 'b' } },
        ...more,
      }),
    );
  const user = 'https://www.googleapis.com/compute/v1/projects/p/zones/z-1/instances/i';
  assert.deepEqual(disk({ users: [user], lastAttachTimestamp: '2026-01-02T00:00:00Z' }), {
    id: 'projects/p/zones/z-1/disks/d',
    state: 'ready',
    sizeBytes: 8n << 30n,
    zone: 'z-1',
    createdMs: Date.parse('2026-01-01'),
    labels: { a: 'b' },
    attachments: [
      { instance: 'projects/p/zones/z-1/instances/i', state: 'attached', sinceMs: Date.parse('2026-01-02') },
    ],
  });
  const states = ['CREATING', 'RESTORING', 'READY', 'UNAVAILABLE', 'FAILED', 'DELETING', 'NEW'].map(
    (status) => disk({ status }).state,
  );
  assert.deepEqual(states, ['making', 'making', 'ready', 'ready', 'failed', 'going', 'making']);
  assert.equal(pathIn('projects/p/global/snapshots/s'), 'projects/p/global/snapshots/s');
  assert.equal(pathIn('https://compute.example/'), '');
});
