import { z } from 'zod';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { parseInput, parseJsonInput } from '../../volume/parse-input.ts';
import type { KubernetesApi } from './api.ts';

/** Who a token stands for. */
export interface Bearer {
  /** The node that the token is bound to. */
  readonly node: string;
  readonly expiresAtMs: number;
}

/** Not a token that a node may come with. */
export class BadToken extends HoldfastError {
  override readonly code = 'FAILED_PRECONDITION';
}

export interface TokenRules {
  /** What the token must be made for, so that no other program's token will do. */
  readonly audience: string;
  /** `system:serviceaccount:NAMESPACE:NAME`: whoever may make pods could have tokens of other accounts. */
  readonly user: string;
}

const nodeClaim = 'authentication.kubernetes.io/node-name';

const review = z.object({
  status: z.object({
    authenticated: z.boolean().optional(),
    audiences: z.array(z.string()).optional(),
    error: z.string().optional(),
    user: z
      .object({ username: z.string().optional(), extra: z.record(z.string(), z.array(z.string())).optional() })
      .optional(),
  }),
});

const claims = z.object({ aud: z.union([z.string(), z.array(z.string())]), exp: z.number() });

/** Longer ones are no tokens. */
const longestToken = 16 * 1024;

/** More at a time wait: garbage at the door is not to keep the API server busy. */
const mostReviews = 16;

/** Has the API server say whose a token is. */
export class Tokens {
  readonly #api: KubernetesApi;
  readonly #rules: TokenRules;
  #running = 0;

  constructor(api: KubernetesApi, rules: TokenRules) {
    this.#api = api;
    this.#rules = rules;
  }

  /** @throws BadToken, Unavailable */
  async review(token: string): Promise<Bearer> {
    const { audience, user } = this.#rules;
    // What a look can tell costs the API server nothing.
    const expiresAtMs = expiryOf(token, audience);
    if (this.#running >= mostReviews) throw new Unavailable('Too many tokens wait for review; come again.');
    this.#running++;
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
      if (status.user?.username !== user) throw new BadToken(`The token is not of ${user}.`);
      const [node, ...others] = status.user.extra?.[nodeClaim] ?? [];
      if (node === undefined || others.length > 0) throw new BadToken('The token is not bound to a pod on a node.');
      return { node, expiresAtMs };
    } finally {
      this.#running--;
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
