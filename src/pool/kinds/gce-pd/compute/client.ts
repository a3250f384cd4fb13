import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { Unavailable } from '../../../../volume/errors.ts';
import { parseJsonInput } from '../../../../volume/parse-input.ts';
import { type HttpRequest, sendHttp } from '../../../cloud-disk/http.ts';
import { OutcomeUnknown, sendRepeatedly } from '../../../cloud-disk/repeat.ts';
import type { TokenSource } from './credentials.ts';

/** Google has refused a request, or an operation has failed; by its reason the caller knows what to do. */
export class GceRefusal extends Unavailable {
  /** In lower case, without underscores: answers have `resourceNotFound`, operations `RESOURCE_NOT_FOUND`. */
  readonly reason: string;
  readonly words: string;

  constructor(action: string, reason: string, words: string) {
    super(`Google refused ${action} (${reason}): ${words.slice(0, 150)}`);
    this.reason = reason.toLowerCase().replaceAll('_', '');
    this.words = words;
  }
}

export interface GceClientOptions {
  readonly endpoint: URL;
  readonly tokens: TokenSource;
  readonly timeoutMs: number;
  /** The pauses before a request that Google had no time for is sent again. */
  readonly pausesMs: readonly number[];
}

export interface GceCall {
  /** For messages: `attachDisk`. */
  readonly action: string;
  readonly method: 'DELETE' | 'GET' | 'POST';
  /** Below /compute/v1/. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
}

const throttled = new Set(['ratelimitexceeded', 'userratelimitexceeded']);
const expired = new Set(['autherror', 'required', 'expired', 'unauthorized']);

/**
 * The few requests that a home has for Compute Engine, in its REST API (v1). Its SDK takes many times the memory
 * (docs/dependencies.md).
 */
export class GceClient {
  readonly #options: GceClientOptions;

  constructor(options: GceClientOptions) {
    this.#options = options;
  }

  /**
   * Each request that changes something has an id, by which Google knows one that arrives twice; so all of them can be repeated. The
   * id is new for each call: Google would answer a later call with what became of the first.
   * @throws GceRefusal, OutcomeUnknown, Unavailable
   */
  async call<T>(schema: z.ZodType<T>, call: GceCall): Promise<T> {
    const requestId = call.method === 'GET' ? undefined : randomUUID();
    return await sendRepeatedly({
      ...{ cloud: 'Google', action: call.action, isRepeatable: true, pausesMs: this.#options.pausesMs },
      send: () => this.#send(schema, call, requestId),
      isThrottled: (error) => error instanceof GceRefusal && throttled.has(error.reason),
      isExpired: (error) => error instanceof GceRefusal && expired.has(error.reason),
      forgetCredentials: () => this.#options.tokens.forget(),
    });
  }

  async #send<T>(schema: z.ZodType<T>, call: GceCall, requestId: string | undefined): Promise<T> {
    const { action, body, method, path, query = {} } = call;
    const { endpoint, timeoutMs, tokens } = this.#options;
    const url = new URL(`/compute/v1/${path}`, endpoint);
    for (const [name, value] of Object.entries({ ...query, requestId })) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    const headers = { authorization: `Bearer ${await tokens.get()}`, accept: 'application/json' };
    const request: HttpRequest =
      body === undefined
        ? { method, url, headers, timeoutMs }
        : {
            ...{ method, url, timeoutMs, body: JSON.stringify(body) },
            headers: { ...headers, 'content-type': 'application/json' },
          };
    const { status, text } = await sendHttp(request);
    if (status === 200) {
      const parsed = parseJsonInput(schema, text);
      if ('data' in parsed) return parsed.data;
      throw new OutcomeUnknown(
        `Google answered ${action} with what cannot be read: ${parsed.mistakes.join('; ').slice(0, 100)}.`,
      );
    }
    throw refusal(action, status, text);
  }
}

const failure = z.looseObject({
  error: z.looseObject({
    message: z.string().default(''),
    errors: z.array(z.looseObject({ reason: z.string().default('') })).default([]),
  }),
});

function refusal(action: string, status: number, text: string): Error {
  const parsed = parseJsonInput(failure, text);
  const error = 'data' in parsed ? parsed.data.error : undefined;
  const reason = error?.errors[0]?.reason ?? '';
  if (status === 429) return new GceRefusal(action, 'rateLimitExceeded', error?.message ?? '');
  if (status === 401) return new GceRefusal(action, 'authError', error?.message ?? 'the token is not valid');
  // Not that of a proxy, which knows nothing of disks.
  if (status === 404 && error !== undefined) return new GceRefusal(action, 'notFound', error.message);
  // A proxy's answer, or that of a server that broke down over the request.
  if (status >= 500 || error === undefined || reason === '') {
    return new OutcomeUnknown(`Google answered ${action} with ${status} ${reason}, and may have done it.`);
  }
  return new GceRefusal(action, reason, error.message);
}
