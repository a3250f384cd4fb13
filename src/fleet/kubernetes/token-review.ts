import { z } from 'zod';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { parseInput, parseJsonInput } from '../../volume/parse-input.ts';
import type { KubernetesApi } from './api.ts';

/** Not a token that one may come with. */
export class BadToken extends HoldfastError {
  override readonly code = 'FAILED_PRECONDITION';
}

const review = z.object({
  status: z.object({
    authenticated: z.boolean().optional(),
    audiences: z.array(z.string()).optional(),
    error: z.string().optional(),
    user: z
      .object({
        username: z.string().optional(),
        uid: z.string().optional(),
        groups: z.array(z.string()).optional(),
        extra: z.record(z.string(), z.array(z.string())).optional(),
      })
      .optional(),
  }),
});

/** Who it is that a token stands for, as the API server says it. */
export type ReviewedStatus = z.infer<typeof review>['status'];

const claims = z.object({ aud: z.union([z.string(), z.array(z.string())]), exp: z.number() });

/** Longer ones are no tokens. */
const longestToken = 16 * 1024;

/** More at a time of strangers wait: garbage at the door is not to keep the API server busy. */
const mostReviews = 16;
/** Tokens of links that are there: they have places of their own, which no stranger takes. */
const mostRenewals = 64;

/** Who comes with a token: somebody who has shown none yet, or a node over the link that it has. */
export type Comer = 'stranger' | 'known';

/** Has the API server say whose tokens are that were made for one audience. */
export class TokenReviews {
  readonly #api: KubernetesApi;
  readonly #audience: string;
  readonly #running: Record<Comer, number> = { stranger: 0, known: 0 };

  /** @param audience what a token must be made for, so that no other program's token will do */
  constructor(api: KubernetesApi, audience: string) {
    this.#api = api;
    this.#audience = audience;
  }

  /** @throws BadToken, Unavailable */
  async review(
    token: string,
    comer: Comer = 'stranger',
  ): Promise<{ readonly status: ReviewedStatus; readonly expiresAtMs: number }> {
    const audience = this.#audience;
    // What a look can tell costs the API server nothing.
    const expiresAtMs = expiryOf(token, audience);
    const most = comer === 'known' ? mostRenewals : mostReviews;
    if (this.#running[comer] >= most) throw new Unavailable('Too many tokens wait for review; come again.');
    this.#running[comer]++;
    try {
      const answer = await this.#api.call({
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/tokenreviews',
        what: 'review a token',
        body: {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenReview',
          spec: { token, audiences: [audience] },
        },
      });
      const parsed = parseInput(review, answer);
      if (!('data' in parsed)) throw new Unavailable('Kubernetes answered no review of the token; it is asked again.');
      const { status } = parsed.data;
      if (status.authenticated !== true) throw new BadToken('Kubernetes does not know the token, or it has expired.');
      if (status.audiences?.includes(audience) !== true) throw new BadToken(`The token is not for ${audience}.`);
      return { status, expiresAtMs };
    } finally {
      this.#running[comer]--;
    }
  }
}

/** By the token's own words, which only the API server can vouch for. */
function expiryOf(token: string, audience: string): number {
  if (token.length > longestToken) throw new BadToken('That is no token.');
  const payload = token.split('.')[1] ?? '';
  const parsed = parseJsonInput(claims, Buffer.from(payload, 'base64url').toString());
  if (!('data' in parsed)) throw new BadToken('That is no token.');
  const { aud, exp } = parsed.data;
  if (![aud].flat().includes(audience)) throw new BadToken(`The token is not for ${audience}.`);
  if (exp * 1000 <= Date.now()) throw new BadToken('The token has expired.');
  return exp * 1000;
}
