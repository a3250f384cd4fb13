import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { Scratch } from '../../../../../test/support/scratch.ts';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { CredentialSource, type Environment } from './credentials.ts';
import { InstanceMetadata } from './metadata.ts';

interface Request {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Answer {
  readonly status?: number;
  readonly text: string;
}

/** Answers by method and path; others get 404. */
let answers: Readonly<Record<string, (request: Request) => Answer>> = {};
let requests: Request[] = [];
const server = createServer(async (message, response) => {
  let body = '';
  for await (const chunk of message) body += String(chunk);
  const request = { line: `${message.method} ${message.url}`, headers: message.headers, body };
  requests.push(request);
  const { status = 200, text } = answers[request.line]?.(request) ?? { status: 404, text: 'nothing here' };
  response.writeHead(status).end(text);
});
const queue = new DiskQueue('test', 1);
let url = '';
let scratch: Scratch;

before(async () => {
  scratch = new Scratch('credentials');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  url = `http://127.0.0.1:${address.port}`;
});
after(() => {
  server.close();
  scratch[Symbol.dispose]();
});
beforeEach(() => {
  answers = {};
  requests = [];
});

function sourceOf(environment: Environment): CredentialSource {
  const metadata = new InstanceMetadata(url);
  return new CredentialSource({ environment: { HOME: scratch.path, ...environment }, region: 'eu-1', queue, metadata });
}

function file(name: string, text: string): string {
  const path = join(scratch.path, name);
  writeFileSync(path, text);
  return path;
}

const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
/** The document of the metadata service and of the agent of EKS. */
const documentOf = (key: string, minutes = 60): Answer => ({
  text: JSON.stringify({
    ...{ Code: 'Success', Type: 'AWS-HMAC', AccessKeyId: key, SecretAccessKey: `secret-${key}` },
    ...{ Token: `token-${key}`, Expiration: inMinutes(minutes) },
  }),
});
const keysOf = (key: string) => ({ accessKeyId: key, secretAccessKey: `secret-${key}`, sessionToken: `token-${key}` });

async function assertKeys(source: CredentialSource, key: string): Promise<void> {
  const { expiresMs: _, ...keys } = await source.get();
  assert.deepEqual(keys, keysOf(key));
}

/** An answer of STS (API_AssumeRoleWithWebIdentity). */
const assumed = (key: string): Answer => ({
  text: `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
    <AssumeRoleWithWebIdentityResult>
      <SubjectFromWebIdentityToken>system:serviceaccount:holdfast-system:holdfast-disks</SubjectFromWebIdentityToken>
      <Credentials>
        <SessionToken>token-${key}</SessionToken><SecretAccessKey>secret-${key}</SecretAccessKey>
        <Expiration>${inMinutes(60)}</Expiration><AccessKeyId>${key}</AccessKeyId>
      </Credentials>
    </AssumeRoleWithWebIdentityResult>
    <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
  </AssumeRoleWithWebIdentityResponse>`,
});

describe('credentials of AWS by a token of Kubernetes (IRSA)', () => {
  const role = 'arn:aws:iam::111122223333:role/holdfast';
  const environment = () => ({
    AWS_ROLE_ARN: role,
    AWS_WEB_IDENTITY_TOKEN_FILE: file('token', 'first.token\n'),
    AWS_ENDPOINT_URL_STS: `${url}/`,
  });

  test('are asked for with the token that is in the file at that time', async () => {
    let asked = 0;
    answers = { 'POST /': () => assumed(`AKIA${++asked}`) };
    const source = sourceOf(environment());
    await assertKeys(source, 'AKIA1');
    await assertKeys(source, 'AKIA1');
    const [request] = requests;
    assert.deepEqual(Object.fromEntries(new URLSearchParams(request?.body)), {
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: role,
      RoleSessionName: 'holdfast',
      WebIdentityToken: 'first.token',
    });
    assert.equal(request?.headers.authorization, undefined);
    file('token', 'second.token');
    source.forget();
    await assertKeys(source, 'AKIA2');
    assert.equal(new URLSearchParams(requests[1]?.body).get('WebIdentityToken'), 'second.token');
  });

  test('are refused in words without the token, and no others are used then', async () => {
    const text = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
      <Code>AccessDenied</Code><Message>first.token is not accepted</Message></Error></ErrorResponse>`;
    answers = { 'POST /': () => ({ status: 403, text }) };
    await assert.rejects(sourceOf(environment()).get(), (error) => {
      assert.ok(error instanceof Error);
      assert.match(
        error.message,
        /^No credentials for AWS: web identity: .* answered 403 \(AccessDenied\) to arn:aws:/,
      );
      assert.doesNotMatch(error.message, /first\.token/);
      return true;
    });
    assert.deepEqual(
      requests.map(({ line }) => line),
      ['POST /'],
    );
  });
});

describe('credentials of AWS by the agent of EKS (Pod Identity)', () => {
  test('are asked for with the token of the pod, which changes', async () => {
    answers = { 'GET /v1/credentials': ({ headers }) => documentOf(`${headers.authorization}`) };
    const source = sourceOf({
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file('pod-token', 'one\n'),
    });
    await assertKeys(source, 'one');
    file('pod-token', 'two');
    source.forget();
    await assertKeys(source, 'two');
  });

  test('are asked for again shortly before their end', async () => {
    const minutes = [4, 60];
    answers = { 'GET /v1/credentials': () => documentOf('key', minutes.shift()) };
    const source = sourceOf({ AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials` });
    for (let time = 0; time < 3; time++) await assertKeys(source, 'key');
    assert.equal(requests.length, 2);
  });

  test('are not asked for without encryption, but of the machine itself', async () => {
    for (const uri of ['http://10.0.0.1/v1/credentials', 'http://agent.example/', 'ftp://127.0.0.1/', 'no url']) {
      const source = sourceOf({
        AWS_CONTAINER_CREDENTIALS_FULL_URI: uri,
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file('pod-token', 'secret'),
      });
      await assert.rejects(source.get(), /container: AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address/);
    }
    assert.equal(requests.length, 0);
  });
});

describe('credentials of AWS by the role of the machine (IMDSv2)', () => {
  const roles = 'GET /latest/meta-data/iam/security-credentials/';
  const withToken = (answer: Answer) => (request: Request) =>
    request.headers['x-aws-ec2-metadata-token'] === 'metadata-token' ? answer : { status: 401, text: '' };

  test('are read with a token', async () => {
    answers = {
      'PUT /latest/api/token': ({ headers }) => {
        assert.equal(headers['x-aws-ec2-metadata-token-ttl-seconds'], '21600');
        return { text: 'metadata-token' };
      },
      [roles]: withToken({ text: 'node-role\n' }),
      [`${roles}node-role`]: withToken(documentOf('machine')),
    };
    await assertKeys(sourceOf({}), 'machine');
    assert.equal(requests.filter(({ line }) => line.startsWith('PUT')).length, 1);
  });

  test('are none where the machine has no role, and in words where the role has none', async () => {
    answers = { 'PUT /latest/api/token': () => ({ text: 'metadata-token' }) };
    await assert.rejects(sourceOf({}).get(), /there are none in the environment, a file or the metadata/);
    answers = {
      ...answers,
      [roles]: () => ({ text: 'node-role' }),
      [`${roles}node-role`]: () => ({ text: '{"Code":"AssumeRoleUnauthorizedAccess"}' }),
    };
    await assert.rejects(sourceOf({}).get(), /instance metadata: the answer has no credentials/);
    answers = { 'PUT /latest/api/token': () => ({ status: 403, text: '' }) };
    await assert.rejects(sourceOf({}).get(), /instance metadata: the metadata service gives no token \(403\)/);
  });
});

test('credentials of AWS are those of the first place that has them', async () => {
  answers = {
    'POST /': () => assumed('token'),
    'GET /v1/credentials': () => documentOf('agent'),
    'PUT /latest/api/token': () => ({ text: 'metadata-token' }),
  };
  const agent = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials` };
  await assertKeys(sourceOf(agent), 'agent');
  const lines =
    '[default]\naws_access_key_id = file\naws_secret_access_key = secret-file\naws_session_token = token-file\n';
  const shared = { ...agent, AWS_SHARED_CREDENTIALS_FILE: file('shared', lines) };
  await assertKeys(sourceOf(shared), 'file');
  const token = { AWS_ROLE_ARN: 'arn', AWS_WEB_IDENTITY_TOKEN_FILE: file('token', 't'), AWS_ENDPOINT_URL_STS: url };
  await assertKeys(sourceOf({ ...shared, ...token }), 'token');
  const keys = { AWS_ACCESS_KEY_ID: 'env', AWS_SECRET_ACCESS_KEY: 'secret-env', AWS_SESSION_TOKEN: 'token-env' };
  await assertKeys(sourceOf({ ...shared, ...token, ...keys }), 'env');
});
