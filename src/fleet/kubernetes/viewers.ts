import { z } from 'zod';
import { HoldfastError } from '../../volume/errors.ts';
import { readAnswer } from './answer.ts';
import type { KubernetesApi } from './api.ts';
import { BadToken, TokenReviews } from './token-review.ts';

/** The API server knows the user, which lacks the right. */
export class NotAllowed extends HoldfastError {
  override readonly code = 'FAILED_PRECONDITION';
}

const accessReview = z.object({ status: z.object({ allowed: z.boolean() }) });

export interface ViewerRules {
  /** Audience of a token: tokens for the API server are refused, and never need to come here. */
  readonly audience: string;
  /** The API group of the lists, which exists only in access reviews. */
  readonly group: string;
}

/** Authorises viewers of the fleet: users that RBAC lets `get` a list by its name in the driver's own API group. */
export class Viewers {
  readonly #api: KubernetesApi;
  readonly #reviews: TokenReviews;
  readonly #group: string;

  constructor(api: KubernetesApi, { audience, group }: ViewerRules) {
    this.#api = api;
    this.#reviews = new TokenReviews(api, audience);
    this.#group = group;
  }

  /**
   * Returns the name of the token's user, if the user may read that list.
   * @throws BadToken, NotAllowed, Unavailable
   */
  async admit(token: string, list: string): Promise<string> {
    const { status } = await this.#reviews.review(token);
    const { extra, groups, uid, username } = status.user ?? {};
    if (username === undefined || username === '') throw new BadToken('The token has no user.');
    const group = this.#group;
    const what = 'review the right to view the fleet';
    const answer = await this.#api.call({
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      what,
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user: username, groups, uid, extra, resourceAttributes: { group, resource: list, verb: 'get' } },
      },
    });
    if (readAnswer(accessReview, answer, what).status.allowed) return username;
    throw new NotAllowed(`${username} may not look at ${list}: RBAC lets it no "get" of ${list}.${group}`);
  }
}
