import { z } from 'zod';
import { HoldfastError } from '../../volume/errors.ts';
import { readAnswer } from './answer.ts';
import type { KubernetesApi } from './api.ts';
import { BadToken, type ReviewedStatus, TokenReviews } from './token-review.ts';

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

/**
 * A right as RBAC has it: `get` of a list to look at it, `update` of `trash` to bring a volume back, `delete` of `trash` to
 * purge one, `delete` of `nodes` to forget one, `create` of `moves` to move a volume, `delete` of `moves` to cancel that.
 */
export interface Right {
  readonly verb: 'create' | 'get' | 'update' | 'delete';
  readonly resource: string;
}

/** A user whose token the API server has confirmed. */
export interface Viewer {
  readonly name: string;
  readonly user: NonNullable<ReviewedStatus['user']>;
  readonly expiresAtMs: number;
}

/** Authorises users of the view: those that RBAC lets do it, by the lists' names in the driver's own API group. */
export class Viewers {
  readonly #api: KubernetesApi;
  readonly #reviews: TokenReviews;
  readonly #group: string;

  constructor(api: KubernetesApi, { audience, group }: ViewerRules) {
    this.#api = api;
    this.#reviews = new TokenReviews(api, audience);
    this.#group = group;
  }

  /** @throws BadToken, Unavailable */
  async whose(token: string): Promise<Viewer> {
    const { expiresAtMs, status } = await this.#reviews.review(token);
    const { user } = status;
    const name = user?.username;
    if (user === undefined || name === undefined || name === '') throw new BadToken('The token has no user.');
    return { name, user, expiresAtMs };
  }

  /** @throws Unavailable */
  async may({ user: { extra, groups, uid, username } }: Viewer, { resource, verb }: Right): Promise<boolean> {
    const what = 'review the right to view the fleet';
    const answer = await this.#api.call({
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      what,
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user: username, groups, uid, extra, resourceAttributes: { group: this.#group, resource, verb } },
      },
    });
    return readAnswer(accessReview, answer, what).status.allowed;
  }

  /** Returns the user of the token, if it has the right. @throws BadToken, NotAllowed, Unavailable */
  async admit(token: string, right: Right): Promise<Viewer> {
    const viewer = await this.whose(token);
    if (await this.may(viewer, right)) return viewer;
    throw new NotAllowed(refusalOf(viewer.name, right, this.#group));
  }
}

function refusalOf(name: string, { resource, verb }: Right, group: string): string {
  const may = verb === 'get' ? `may not look at ${resource}` : `may not change ${resource}`;
  return `${name} ${may}: RBAC lets it no "${verb}" of ${resource}.${group}`;
}
