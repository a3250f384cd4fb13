import { request } from 'node:http';
import type { z } from 'zod';
import { isErrno } from '../kernel/call/errno.ts';
import { type ErrorCode, errorCodes } from '../volume/errors.ts';
import { parseJsonInput } from '../volume/parse-input.ts';
import type { LostEnd } from './lost-node.ts';
import {
  type Adopted,
  adopted,
  type ConditionList,
  conditionList,
  type HolderList,
  holderList,
  type MoveList,
  type Moving,
  moveList,
  moving,
  type PlannedMove,
  type PoolList,
  type Purged,
  plannedMove,
  poolList,
  purged,
  type Released,
  type Restored,
  refusal,
  released,
  restored,
  type StartedMove,
  startedMove,
  type TrashList,
  trashList,
} from './protocol.ts';

/** The parameters of `adopt` as the command line has them. */
export interface AdoptRequest {
  readonly path: string;
  readonly pool: string;
  readonly namespace: string;
  readonly claim: string;
  readonly name?: string;
  readonly sizeBytes?: string;
}

/** The driver refused, or no driver runs; the message is for the operator. */
export class AdminError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Sends requests to the running driver. */
export class AdminClient {
  readonly #socketPath: string;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  listPools(): Promise<PoolList> {
    return this.#call('GET', '/v1/pools', poolList);
  }

  listTrash(): Promise<TrashList> {
    return this.#call('GET', '/v1/trash', trashList);
  }

  listConditions(): Promise<ConditionList> {
    return this.#call('GET', '/v1/conditions', conditionList);
  }

  /**
   * @param lostNode the node that it has moved to, which never comes back
   * @param lostPool the pool that it has moved to, whose disk is lost
   */
  restore(
    id: string,
    { isEvenSo, ...lost }: { lostNode?: string | undefined; lostPool?: string | undefined; isEvenSo?: boolean } = {},
  ): Promise<Restored> {
    const evenSo = isEvenSo === true ? 'true' : undefined;
    return this.#call('POST', `/v1/trash/${encodeURIComponent(id)}/restore${query({ ...lost, evenSo })}`, restored);
  }

  /** May take long: the driver reads the whole tree. */
  adopt(request: AdoptRequest): Promise<Adopted> {
    return this.#call('POST', `/v1/adoptions?${new URLSearchParams({ ...request })}`, adopted);
  }

  /** Without a path: to its origin. */
  release(id: string, to: string | undefined): Promise<Released> {
    const query = to === undefined ? '' : `?${new URLSearchParams({ to })}`;
    return this.#call('POST', `/v1/volumes/${encodeURIComponent(id)}/release${query}`, released);
  }

  /** Without an id: purges the whole trash. */
  purge(id: string | undefined): Promise<Purged> {
    return this.#call('DELETE', id === undefined ? '/v1/trash' : `/v1/trash/${encodeURIComponent(id)}`, purged);
  }

  planMove(id: string, to: string, withSnapshots = false): Promise<PlannedMove> {
    const query = new URLSearchParams({ to, ...followedBy(withSnapshots) });
    return this.#call('GET', `/v1/volumes/${encodeURIComponent(id)}/move?${query}`, plannedMove);
  }

  startMove(
    id: string,
    to: string,
    limitBytesPerSecond: bigint | undefined,
    withSnapshots = false,
  ): Promise<StartedMove> {
    const limit = limitBytesPerSecond === undefined ? {} : { limitBytesPerSecond: limitBytesPerSecond.toString() };
    const query = new URLSearchParams({ to, ...limit, ...followedBy(withSnapshots) });
    return this.#call('POST', `/v1/volumes/${encodeURIComponent(id)}/move?${query}`, startedMove);
  }

  /**
   * @param lostNode the other node of the move, which never comes back
   * @param isEvenSo also a copy that may be the last one is removed, and an earlier one becomes the volume
   */
  cancelMove(id: string, lostNode?: string, isEvenSo = false): Promise<Moving> {
    const evenSo = isEvenSo ? 'true' : undefined;
    return this.#call('DELETE', `/v1/volumes/${encodeURIComponent(id)}/move${query({ lostNode, evenSo })}`, moving);
  }

  /**
   * @param lost the other node of the move, or the pool that the volume leaves: neither ever comes back
   * @param isEvenSo also a copy since which the volume could be used
   */
  finishMove(id: string, lost: LostEnd, isEvenSo = false): Promise<Moving> {
    const evenSo = isEvenSo ? 'true' : undefined;
    return this.#call('POST', `/v1/volumes/${encodeURIComponent(id)}/move/finish${query({ ...lost, evenSo })}`, moving);
  }

  listMoves(): Promise<MoveList> {
    return this.#call('GET', '/v1/moves', moveList);
  }

  holders(id: string): Promise<HolderList> {
    return this.#call('GET', `/v1/volumes/${encodeURIComponent(id)}/holders`, holderList);
  }

  async #call<T>(method: string, path: string, schema: z.ZodType<T>): Promise<T> {
    const { status, text } = await this.#exchange(method, path);
    if (status !== 200) {
      const refused = parseJsonInput(refusal, text);
      if ('data' in refused) throw new AdminError(codeIn(refused.data.code), refused.data.message);
      throw new AdminError('INTERNAL', `the driver answered with HTTP status ${status}: see its log`);
    }
    const answer = parseJsonInput(schema, text);
    if ('data' in answer) return answer.data;
    throw new AdminError(
      'INTERNAL',
      'the driver answered in words that this command does not know: are both of one version?',
    );
  }

  /** @throws AdminError if no driver runs */
  #exchange(method: string, path: string): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const call = request({ socketPath: this.#socketPath, method, path, agent: false }, async (response) => {
        try {
          let text = '';
          for await (const chunk of response.setEncoding('utf8')) text += chunk;
          resolve({ status: response.statusCode ?? 0, text });
        } catch (error) {
          reject(error);
        }
      });
      call.once('error', (error) => reject(this.#explain(error)));
      call.end();
    });
  }

  #explain(error: Error): Error {
    if (isErrno(error, 'ECONNRESET', 'EPIPE')) {
      return new AdminError('UNAVAILABLE', 'the driver went away before it answered; the command can be repeated.');
    }
    if (!isErrno(error, 'ENOENT', 'ECONNREFUSED')) return error;
    return new AdminError(
      'UNAVAILABLE',
      `no driver answers at ${this.#socketPath}: start it (holdfast serve), or run this in its container.`,
    );
  }
}

/** A newer driver may have more codes. */
function codeIn(text: string): ErrorCode {
  return errorCodes.find((code) => code === text) ?? 'INTERNAL';
}

function followedBy(withSnapshots: boolean): Record<string, string> {
  return withSnapshots ? { withSnapshots: 'true' } : {};
}

function query(options: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(options).flatMap(([key, name]) => (name === undefined ? [] : [[key, name]]));
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}
