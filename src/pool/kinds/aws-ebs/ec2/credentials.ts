import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { readIfThere } from '../../../../kernel/file/file.ts';
import { Unavailable } from '../../../../volume/errors.ts';
import { parseJsonInput } from '../../../../volume/parse-input.ts';
import { isSafe, sendHttp } from '../../../cloud-disk/http.ts';
import type { InstanceMetadata } from './metadata.ts';
import { child, NotXml, parseXml, textOf } from './xml.ts';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
  /** undefined: they do not end. */
  readonly expiresMs: number | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface CredentialsOptions {
  /** The variables that start with AWS_, and HOME. */
  readonly environment: Environment;
  readonly region: string;
  readonly queue: DiskQueue;
  readonly metadata: InstanceMetadata;
}

/** New ones are asked for this long before the old ones end. */
const aheadMs = 300_000;
const timeoutMs = 10_000;

/**
 * Finds credentials where AWS's own programs do, in their order: the environment, a token of Kubernetes (IRSA), the shared file,
 * the agent of EKS (Pod Identity), the role of the machine (IMDSv2).
 */
export class CredentialSource {
  readonly #options: CredentialsOptions;
  #current: Promise<Credentials> | undefined;
  #expiresMs = 0;

  constructor(options: CredentialsOptions) {
    this.#options = options;
  }

  /** @throws Unavailable that names the places where none were found */
  async get(): Promise<Credentials> {
    if (this.#current === undefined || Date.now() >= this.#expiresMs - aheadMs) {
      this.#expiresMs = Number.POSITIVE_INFINITY;
      const finding = this.#find();
      this.#current = finding;
      try {
        this.#expiresMs = (await finding).expiresMs ?? Number.POSITIVE_INFINITY;
      } catch (error) {
        this.#current = undefined;
        throw error;
      }
    }
    return await this.#current;
  }

  /** AWS has refused them: the next call finds others. */
  forget(): void {
    this.#current = undefined;
  }

  async #find(): Promise<Credentials> {
    const tried: string[] = [];
    for (const [name, find] of [
      ['environment', () => this.#fromEnvironment()],
      ['web identity', () => this.#fromWebIdentity()],
      ['shared file', () => this.#fromFile()],
      ['container', () => this.#fromContainer()],
      ['instance metadata', () => this.#fromMetadata()],
    ] as const) {
      const found = await find().catch((error: unknown) => {
        tried.push(`${name}: ${explain(error)}`);
        return undefined;
      });
      if (found !== undefined) return found;
      // One that is configured and fails is not replaced by another account's.
      if (tried.length > 0) break;
    }
    const why = tried.length === 0 ? 'there are none in the environment, a file or the metadata' : tried.join('; ');
    throw new Unavailable(`No credentials for AWS: ${why} (docs/aws-ebs.md).`);
  }

  async #fromEnvironment(): Promise<Credentials | undefined> {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = this.#options.environment;
    if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) return undefined;
    return {
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: AWS_SECRET_ACCESS_KEY,
      sessionToken: AWS_SESSION_TOKEN || undefined,
      expiresMs: undefined,
    };
  }

  /** AssumeRoleWithWebIdentity needs no signature: the token is the proof. */
  async #fromWebIdentity(): Promise<Credentials | undefined> {
    const { environment, queue, region } = this.#options;
    const { AWS_ENDPOINT_URL_STS, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME, AWS_WEB_IDENTITY_TOKEN_FILE } = environment;
    if (!AWS_WEB_IDENTITY_TOKEN_FILE || !AWS_ROLE_ARN) return undefined;
    const token = (await queue.run(() => readFile(AWS_WEB_IDENTITY_TOKEN_FILE, 'utf8'))).trim();
    const body = new URLSearchParams({
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: AWS_ROLE_ARN,
      RoleSessionName: AWS_ROLE_SESSION_NAME || 'holdfast',
      WebIdentityToken: token,
    }).toString();
    const url = new URL(AWS_ENDPOINT_URL_STS || `https://sts.${region}.${domainOf(region)}/`);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const { status, text } = await sendHttp({ method: 'POST', url, headers, body, timeoutMs });
    if (status !== 200) throw new Unavailable(`${url.host} answered ${status} (${codeIn(text)}) to ${AWS_ROLE_ARN}`);
    const result = child(parseXml(text), 'AssumeRoleWithWebIdentityResult');
    const found = result && child(result, 'Credentials');
    if (found === undefined) throw new Unavailable(`${url.host} answered without credentials`);
    return {
      accessKeyId: textOf(found, 'AccessKeyId'),
      secretAccessKey: textOf(found, 'SecretAccessKey'),
      sessionToken: textOf(found, 'SessionToken'),
      expiresMs: Date.parse(textOf(found, 'Expiration')) || Date.now() + aheadMs,
    };
  }

  async #fromFile(): Promise<Credentials | undefined> {
    const { environment, queue } = this.#options;
    const { AWS_PROFILE = 'default', AWS_SHARED_CREDENTIALS_FILE, HOME } = environment;
    const path = AWS_SHARED_CREDENTIALS_FILE || (HOME ? join(HOME, '.aws/credentials') : undefined);
    if (path === undefined) return undefined;
    const text = await readIfThere(queue, path);
    return text === undefined ? undefined : profileIn(text, AWS_PROFILE);
  }

  async #fromContainer(): Promise<Credentials | undefined> {
    const { environment, queue } = this.#options;
    const { AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: path, AWS_CONTAINER_CREDENTIALS_FULL_URI: uri } = environment;
    if (!uri) return undefined;
    const url = agentAt(uri);
    const authorization = path ? (await queue.run(() => readFile(path, 'utf8'))).trim() : undefined;
    const headers = authorization === undefined ? {} : { authorization };
    const { status, text } = await sendHttp({ method: 'GET', url, headers, timeoutMs });
    if (status !== 200) throw new Unavailable(`${url.host} answered ${status}`);
    return credentialsIn(text);
  }

  async #fromMetadata(): Promise<Credentials | undefined> {
    const { metadata } = this.#options;
    const roles = await metadata.get('meta-data/iam/security-credentials/');
    const role = roles?.split('\n')[0]?.trim();
    if (!role) return undefined;
    const text = await metadata.get(`meta-data/iam/security-credentials/${role}`);
    return text === undefined ? undefined : credentialsIn(text);
  }
}

/** The agents of ECS and EKS. */
const agents = ['169.254.170.2', '169.254.170.23', '[fd00:ec2::23]'];

/** @throws Unavailable */
function agentAt(uri: string): URL {
  if (URL.canParse(uri) && isSafe(new URL(uri), agents)) return new URL(uri);
  throw new Unavailable('AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of the machine itself');
}

const document = z.looseObject({
  AccessKeyId: z.string(),
  SecretAccessKey: z.string(),
  Token: z.string(),
  Expiration: z.string(),
});

function credentialsIn(text: string): Credentials {
  const parsed = parseJsonInput(document, text);
  if ('mistakes' in parsed) throw new Unavailable('the answer has no credentials');
  const { AccessKeyId, Expiration, SecretAccessKey, Token } = parsed.data;
  return {
    accessKeyId: AccessKeyId,
    secretAccessKey: SecretAccessKey,
    sessionToken: Token,
    expiresMs: Date.parse(Expiration) || Date.now() + aheadMs,
  };
}

/** The keys of a profile in ~/.aws/credentials; undefined: it has none there. */
export function profileIn(text: string, profile: string): Credentials | undefined {
  const values = new Map<string, string>();
  let isIn = false;
  for (const line of text.split('\n')) {
    const [, section] = /^\s*\[([^\]]+)\]/.exec(line) ?? [];
    if (section !== undefined) isIn = section.trim() === profile;
    const [, key, value] = /^\s*([a-z_]+)\s*=\s*(\S+)\s*$/.exec(line) ?? [];
    if (isIn && key !== undefined && value !== undefined) values.set(key, value);
  }
  const accessKeyId = values.get('aws_access_key_id');
  const secretAccessKey = values.get('aws_secret_access_key');
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: values.get('aws_session_token'), expiresMs: undefined };
}

/** AWS in China has another domain. */
export function domainOf(region: string): string {
  return region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
}

function codeIn(text: string): string {
  try {
    return textOf(parseXml(text), 'Error', 'Code') || 'no code';
  } catch (error) {
    if (error instanceof NotXml) return 'no code';
    throw error;
  }
}
