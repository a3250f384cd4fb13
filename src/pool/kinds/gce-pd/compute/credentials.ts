import { createPrivateKey, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../../kernel/call/errno.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { Unavailable } from '../../../../volume/errors.ts';
import { parseInput, parseJsonInput } from '../../../../volume/parse-input.ts';
import { NoAnswer, sendHttp } from '../../../cloud-disk/http.ts';
import { OutcomeUnknown } from '../../../cloud-disk/repeat.ts';
import type { GceMetadata } from './metadata.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface TokenOptions {
  /** The variables that start with GOOGLE_ or GCE_, and HOME. */
  readonly environment: Environment;
  readonly queue: DiskQueue;
  readonly metadata: GceMetadata;
}

interface Token {
  readonly text: string;
  readonly expiresMs: number;
}

/** A new one is asked for this long before the old one ends. GKE's service keeps one until 5 minutes before. */
const aheadMs = 240_000;
const timeoutMs = 10_000;
const scope = 'https://www.googleapis.com/auth/cloud-platform';

/**
 * Finds credentials where Google's libraries do, in their order: the file that GOOGLE_APPLICATION_CREDENTIALS names, the one that
 * gcloud writes, the metadata service. Exchanges them for tokens, which last an hour.
 */
export class TokenSource {
  readonly #options: TokenOptions;
  #current: Promise<Token> | undefined;
  #expiresMs = 0;
  #last: Token | undefined;

  constructor(options: TokenOptions) {
    this.#options = options;
  }

  /** @throws Unavailable that names the place where none were found */
  async get(): Promise<string> {
    if (this.#current === undefined || Date.now() >= this.#expiresMs - aheadMs) {
      this.#expiresMs = Number.POSITIVE_INFINITY;
      const finding = this.#renew(this.#last);
      this.#current = finding;
      try {
        this.#last = await finding;
        this.#expiresMs = this.#last.expiresMs;
      } catch (error) {
        this.#current = undefined;
        throw error;
      }
    }
    return (await this.#current).text;
  }

  /** Google has refused it: the next call finds another. */
  forget(): void {
    this.#current = undefined;
    this.#last = undefined;
  }

  /** The project that the file of credentials names; undefined: it names none, or there is no file. */
  async project(): Promise<string | undefined> {
    const file = await this.#file();
    return file?.content.type === 'service_account' ? file.content.project_id : undefined;
  }

  /** The old one is good until its end. */
  async #renew(old: Token | undefined): Promise<Token> {
    try {
      return await this.#find();
    } catch (error) {
      if (old === undefined || Date.now() >= old.expiresMs) throw error;
      return old;
    }
  }

  async #find(): Promise<Token> {
    let place = 'metadata service';
    try {
      const file = await this.#file();
      if (file === undefined) return await this.#fromMetadata();
      place = file.path;
      return await this.#fromFile(file.content);
    } catch (error) {
      // One that is configured and fails is not replaced by another account's.
      const words = `No credentials for Google: ${place}: ${explain(error)} (docs/gce-pd.md).`;
      const mayPass = error instanceof NoAnswer || error instanceof OutcomeUnknown;
      throw mayPass ? new OutcomeUnknown(words) : new Unavailable(words);
    }
  }

  async #file(): Promise<{ readonly path: string; readonly content: CredentialFile } | undefined> {
    const { environment, queue } = this.#options;
    const { GOOGLE_APPLICATION_CREDENTIALS: named, HOME } = environment;
    const path = named || (HOME ? join(HOME, '.config/gcloud/application_default_credentials.json') : undefined);
    if (path === undefined) return undefined;
    const reading: Promise<string> = queue.run(() => readFile(path, 'utf8'));
    // Only the usual place may be empty.
    const text = await reading.catch((error: unknown): undefined => {
      if (!named) return ignoreMissing(error);
      throw new Unavailable(`GOOGLE_APPLICATION_CREDENTIALS: ${explain(error)}`);
    });
    return text === undefined ? undefined : { path, content: readCredentialFile(path, text) };
  }

  async #fromMetadata(): Promise<Token> {
    const text = await this.#options.metadata.require('instance/service-accounts/default/token');
    return tokenIn('the metadata service', text);
  }

  async #fromFile(file: CredentialFile): Promise<Token> {
    switch (file.type) {
      case 'service_account':
        return await exchange(file.token_uri, {
          grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
          assertion: signedClaims(file, Date.now()),
        });
      case 'authorized_user':
        return await exchange(file.token_uri, {
          grant_type: 'refresh_token',
          client_id: file.client_id,
          client_secret: file.client_secret,
          refresh_token: file.refresh_token,
        });
      case 'external_account':
        return await this.#fromExternal(file);
    }
  }

  /** Workload identity federation: the token of another issuer is exchanged for one of Google. */
  async #fromExternal(file: ExternalAccount): Promise<Token> {
    const { file: path, format } = file.credential_source;
    const subject = subjectTokenIn(await this.#options.queue.run(() => readFile(path, 'utf8')), format);
    const federated = await exchange(file.token_url, {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      audience: file.audience,
      scope,
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      subject_token: subject,
      subject_token_type: file.subject_token_type,
    });
    if (file.service_account_impersonation_url === undefined) return federated;
    return await impersonate(new URL(file.service_account_impersonation_url), federated);
  }
}

const serviceAccount = z.looseObject({
  type: z.literal('service_account'),
  project_id: z.string().optional(),
  client_email: z.string(),
  private_key_id: z.string().optional(),
  private_key: z.string(),
  token_uri: z.url().default('https://oauth2.googleapis.com/token'),
});
const authorizedUser = z.looseObject({
  type: z.literal('authorized_user'),
  client_id: z.string(),
  client_secret: z.string(),
  refresh_token: z.string(),
  token_uri: z.url().default('https://oauth2.googleapis.com/token'),
});
const fileFormat = z.looseObject({
  type: z.enum(['text', 'json']).default('text'),
  subject_token_field_name: z.string().optional(),
});
const externalAccount = z.looseObject({
  type: z.literal('external_account'),
  audience: z.string(),
  subject_token_type: z.string(),
  token_url: z.url(),
  service_account_impersonation_url: z.url().optional(),
  credential_source: z.looseObject({ file: z.string(), format: fileFormat.optional() }),
});

type ServiceAccount = z.infer<typeof serviceAccount>;
type ExternalAccount = z.infer<typeof externalAccount>;
type CredentialFile = ServiceAccount | ExternalAccount | z.infer<typeof authorizedUser>;

const known = { service_account: serviceAccount, authorized_user: authorizedUser, external_account: externalAccount };

/** @throws Unavailable in words that have nothing of its content */
export function readCredentialFile(path: string, text: string): CredentialFile {
  const parsed = parseJsonInput(z.looseObject({ type: z.string() }), text);
  if ('mistakes' in parsed) throw new Unavailable(`${path} is no file of credentials`);
  const { type } = parsed.data;
  const schema: z.ZodType<CredentialFile> | undefined = Object.hasOwn(known, type)
    ? known[type as keyof typeof known]
    : undefined;
  if (schema !== undefined) {
    const file = parseInput(schema, parsed.data);
    if ('data' in file) return file.data;
    // The rest of a mistake quotes the value.
    const where = file.mistakes.map((mistake) => mistake.split(':')[0]).join(', ');
    throw new Unavailable(`${path} of type ${type} lacks ${where}, or has another form of it than is read here`);
  }
  throw new Unavailable(`${path} is of a type that is not read here: ${Object.keys(known).join(', ')} are`);
}

/** A JSON Web Token by which a service account asks for a token (RFC 7523). */
function signedClaims(account: ServiceAccount, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000);
  const header = { alg: 'RS256', typ: 'JWT', ...(account.private_key_id && { kid: account.private_key_id }) };
  const claims = { iss: account.client_email, scope, aud: account.token_uri, iat: seconds, exp: seconds + 3600 };
  const encoded = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  const signature = sign('sha256', Buffer.from(encoded), keyOf(account)).toString('base64url');
  return `${encoded}.${signature}`;
}

function keyOf({ private_key: pem }: ServiceAccount) {
  try {
    return createPrivateKey(pem);
  } catch {
    // The error of OpenSSL may quote it.
    throw new Unavailable('its private_key is no key in PEM');
  }
}

/** @throws Unavailable if the file has another form */
function subjectTokenIn(text: string, format: z.infer<typeof fileFormat> | undefined): string {
  if (format?.type !== 'json') return text.trim();
  const parsed = parseJsonInput(z.record(z.string(), z.unknown()), text);
  const found = 'data' in parsed ? parsed.data[format.subject_token_field_name ?? ''] : undefined;
  if (typeof found === 'string') return found;
  throw new Unavailable('the file of credential_source has no token');
}

async function exchange(address: string, values: Readonly<Record<string, string>>): Promise<Token> {
  const url = new URL(address);
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const body = new URLSearchParams(values).toString();
  const { status, text } = await sendHttp({ method: 'POST', url, headers, body, timeoutMs });
  requireOk(status, `${url.host} answered ${status} (${errorIn(text)})`);
  return tokenIn(url.host, text);
}

async function impersonate(url: URL, { text: token }: Token): Promise<Token> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
  const body = JSON.stringify({ scope: [scope] });
  const { status, text } = await sendHttp({ method: 'POST', url, headers, body, timeoutMs });
  requireOk(status, `${url.host} answered ${status}`);
  const parsed = parseJsonInput(z.looseObject({ accessToken: z.string(), expireTime: z.string() }), text);
  if ('mistakes' in parsed) throw new Unavailable(`${url.host} answered without a token`);
  const { accessToken, expireTime } = parsed.data;
  return { text: accessToken, expiresMs: Date.parse(expireTime) || Date.now() + aheadMs };
}

/** @throws OutcomeUnknown for what may pass, Unavailable */
function requireOk(status: number, words: string): void {
  if (status === 429 || status >= 500) throw new OutcomeUnknown(words);
  if (status !== 200) throw new Unavailable(words);
}

function tokenIn(host: string, text: string): Token {
  const parsed = parseJsonInput(z.looseObject({ access_token: z.string(), expires_in: z.number() }), text);
  if ('mistakes' in parsed) throw new Unavailable(`${host} answered without a token`);
  const { access_token, expires_in } = parsed.data;
  return { text: access_token, expiresMs: Date.now() + expires_in * 1000 };
}

/** The code of an error of OAuth, which says nothing secret: `invalid_grant`. */
function errorIn(text: string): string {
  const parsed = parseJsonInput(z.looseObject({ error: z.string().regex(/^[a-z_]{1,40}$/) }), text);
  return 'data' in parsed ? parsed.data.error : 'no code';
}
