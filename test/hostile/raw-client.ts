import assert from 'node:assert/strict';
import * as grpc from '@grpc/grpc-js';
import { decode, type Method } from '../../src/csi/contract.ts';
import { checkLimits } from '../../src/csi/limits.ts';

/** A request as bytes, whatever they are. */
export interface RawRequest {
  readonly method: Method;
  readonly bytes: Buffer;
}

/** What a driver said to a request. */
export interface Answer {
  /** The name of the code. */
  readonly code: string;
  readonly message: string;
}

/** Longer than anything here takes: no answer is a failure. */
const patienceMs = 60_000;

/** What a driver that is well may say. The rest would mean a bug, a damaged disk, or no answer at all. */
const sane: ReadonlySet<string> = new Set([
  'OK',
  'INVALID_ARGUMENT',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
]);

/** Sends requests that no client of ours would encode. */
export class RawClient implements Disposable {
  readonly #client: grpc.Client;

  constructor(socketPath: string) {
    this.#client = new grpc.Client(`unix:${socketPath}`, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_retries': 0,
      'grpc.enable_channelz': 0,
    });
  }

  /**
   * Asserts that the answer is one that the contract allows: a canonical code that fits, a message that is not empty, no
   * details, nothing over the limits (E01, L07, L11).
   */
  async call({ bytes, method }: RawRequest): Promise<Answer> {
    const status = await this.#exchange(method, bytes);
    const code = grpc.status[status.code] ?? `${status.code}`;
    assert.ok(sane.has(code), `${method.name} was answered with ${code}: ${status.details}`);
    if (code === 'OK') return { code, message: '' };
    assert.notEqual(status.details, '', `${method.name}: ${code} without a message`);
    assert.ok(Buffer.byteLength(status.details) < 4096, `${method.name}: a message of ${status.details.length}`);
    assert.deepEqual(status.metadata.get('grpc-status-details-bin'), [], `${method.name}: ${code} with details`);
    return { code, message: status.details };
  }

  #exchange(method: Method, bytes: Buffer): Promise<grpc.StatusObject> {
    return new Promise((resolve, reject) => {
      const call = this.#client.makeServerStreamRequest(
        method.path,
        (message: Buffer) => message,
        (response: Buffer) => response,
        bytes,
        { deadline: Date.now() + patienceMs },
      );
      call.on('data', (response: Buffer) => {
        try {
          checkLimits(method.responseType, decode<object>(method.responseType, response));
        } catch (error) {
          reject(error);
        }
      });
      // The status tells it all.
      call.on('error', () => undefined);
      call.on('status', resolve);
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
