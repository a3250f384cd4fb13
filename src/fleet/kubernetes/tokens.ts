import type { KubernetesApi } from './api.ts';
import { BadToken, type Comer, TokenReviews } from './token-review.ts';

/** The node that a token stands for. */
export interface Bearer {
  /** The node that the token is bound to. */
  readonly node: string;
  readonly expiresAtMs: number;
}

export interface TokenRules {
  readonly audience: string;
  /** `system:serviceaccount:NAMESPACE:NAME`: a user that may make pods could have tokens of other accounts. */
  readonly user: string;
}

const nodeClaim = 'authentication.kubernetes.io/node-name';

/** The tokens that nodes link with. */
export class Tokens {
  readonly #reviews: TokenReviews;
  readonly #user: string;

  constructor(api: KubernetesApi, { audience, user }: TokenRules) {
    this.#reviews = new TokenReviews(api, audience);
    this.#user = user;
  }

  /** @throws BadToken, Unavailable */
  async review(token: string, comer?: Comer): Promise<Bearer> {
    const user = this.#user;
    const { expiresAtMs, status } = await this.#reviews.review(token, comer);
    if (status.user?.username !== user) throw new BadToken(`The token is not of ${user}.`);
    const [node, ...others] = status.user.extra?.[nodeClaim] ?? [];
    if (node === undefined || others.length > 0) throw new BadToken('The token is not bound to a pod on a node.');
    return { node, expiresAtMs };
  }
}
