import { z } from 'zod';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { parseInput, parseJsonInput } from '../../volume/parse-input.ts';
import type { KubernetesApi } from './api.ts';

/** An invalid token. */
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

/** The owner of a token, as the API server reports it. */
export type ReviewedStatus = z.infer<typeof review>['status'];

const claims = z.object({ aud: z.union([z.string(), z.array(z.string())]), exp: z.number() });

/** Longer texts are no tokens. */
const longestToken = 16 * 1024;

/** Limit of reviews for strangers; more wait: invalid tokens must not keep the API server busy. */
const maxReviews = 16;
/** Limit of reviews for existing links: they have separate places, which no stranger takes. */
const maxRenewals = 64;

/** The sender of a token: a stranger that has shown none yet, or a node over its link. */
export type Comer = 'stranger' | 'known';

/** Asks the API server for the owners of tokens for one audience. */
export class TokenReviews {
  readonly #api: KubernetesApi;
  readonly #audience: string;
  readonly #running: Record<Comer, number> = { stranger: 0, known: 0 };

  /** @param audience the audience of a valid token, so that no other program's token is accepted */
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
    // Checks that need no API server come first.
    const expiresAtMs = expiryOf(token, audience);
    const max = comer === 'known' ? maxRenewals : maxReviews;
    if (this.#running[comer] >= max) throw new Unavailable('Too many tokens wait for review; try again.');
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
      if (!('data' in parsed)) throw new Unavailable('The answer of Kubernetes is no review of the token; retrying.');
      const { status } = parsed.data;
      if (status.authenticated !== true) throw new BadToken('Kubernetes does not know the token, or it has expired.');
      if (status.audiences?.includes(audience) !== true) throw new BadToken(`The token is not for ${audience}.`);
      return { status, expiresAtMs };
    } finally {
      this.#running[comer]--;
    }
  }
}

/** Reads the token's own claims, which only the API server can verify. */
function expiryOf(token: string, audience: string): number {
  if (token.length > longestToken) throw new BadToken('This is not a token.');
  const payload = token.split('.')[1] ?? '';
  const parsed = parseJsonInput(claims, Buffer.from(payload, 'base64url').toString());
  if (!('data' in parsed)) throw new BadToken('This is not a token.');
  const { aud, exp } = parsed.data;
  if (![aud].flat().includes(audience)) throw new BadToken(`The token is not for ${audience}.`);
  if (exp * 1000 <= Date.now()) throw new BadToken('The token has expired.');
  return exp * 1000;
}
