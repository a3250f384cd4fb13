import assert from 'node:assert/strict';
import * as grpc from '@grpc/grpc-js';
import { decode, encode, type Method, methodsOf } from '../../src/csi/contract.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft, ServerStream, Unary } from '../../src/csi/handler.ts';
import { checkLimits } from '../../src/csi/limits.ts';

/** How long a call may take if a test says nothing: long enough for any, so that a hang is a failure, not a hang. */
const patienceMs = 60_000;

export interface CallOptions {
  readonly deadlineMs?: number;
  /** Hangs up, as a client that dies does. */
  readonly signal?: AbortSignal;
}

/** A call that was answered with an error. */
export class CallError extends Error {
  /** The name of the code: `NOT_FOUND`. */
  readonly code: string;

  constructor(rpc: string, status: grpc.StatusObject) {
    super(status.details);
    this.name = `${rpc}: ${grpc.status[status.code]}`;
    this.code = grpc.status[status.code] ?? `${status.code}`;
  }
}

/** The RPCs of a service as functions; a stream is collected into a list. */
export type ClientOf<Methods> = {
  readonly [K in keyof Methods]: Methods[K] extends Unary<infer Q, infer R>
    ? (request: Draft<Q>, options?: CallOptions) => Promise<R>
    : Methods[K] extends ServerStream<infer Q, infer R>
      ? (request: Draft<Q>, options?: CallOptions) => Promise<R[]>
      : never;
};

/** A connection to a driver's socket. */
export interface DriverClient {
  readonly identity: ClientOf<wire.IdentityMethods>;
  readonly controller: ClientOf<wire.ControllerMethods>;
  readonly node: ClientOf<wire.NodeMethods>;
  readonly groupController: ClientOf<wire.GroupControllerMethods>;
  readonly snapshotMetadata: ClientOf<wire.SnapshotMetadataMethods>;
  readonly registration: ClientOf<wire.RegistrationMethods>;
  close(): void;
  [Symbol.dispose](): void;
}

/**
 * Connects to a driver. Whatever it answers is held against the contract at once: what it emits stays within the
 * limits (L07, L11), and an error has a message and no details (E01).
 */
export function connectDriver(socketPath: string): DriverClient {
  const client = new grpc.Client(`unix:${socketPath}`, grpc.credentials.createInsecure(), {
    // A driver that was restarted is met at once, whatever other clients in this process know of the old one.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.initial_reconnect_backoff_ms': 20,
    'grpc.max_reconnect_backoff_ms': 200,
    'grpc.enable_channelz': 0,
    'grpc.enable_retries': 0,
  });
  const close = () => client.close();
  return {
    identity: service<wire.IdentityMethods>(client, 'csi.v1.Identity'),
    controller: service<wire.ControllerMethods>(client, 'csi.v1.Controller'),
    node: service<wire.NodeMethods>(client, 'csi.v1.Node'),
    groupController: service<wire.GroupControllerMethods>(client, 'csi.v1.GroupController'),
    snapshotMetadata: service<wire.SnapshotMetadataMethods>(client, 'csi.v1.SnapshotMetadata'),
    registration: service<wire.RegistrationMethods>(client, 'pluginregistration.Registration'),
    close,
    [Symbol.dispose]: close,
  };
}

function service<Methods>(client: grpc.Client, name: string): ClientOf<Methods> {
  const calls = methodsOf(name).map((method) => {
    const call = method.responseStream ? callStream : callUnary;
    return [method.name, (request: object, options?: CallOptions) => call(client, method, request, options)];
  });
  // The generated types and the descriptor that these functions were made from are of one contract.
  return Object.fromEntries(calls) as ClientOf<Methods>;
}

function callUnary(client: grpc.Client, method: Method, request: object, options?: CallOptions): Promise<object> {
  return new Promise((resolve, reject) => {
    const call = client.makeUnaryRequest(
      method.path,
      (message: object) => encode(method.requestType, message),
      (bytes: Buffer) => readResponse(method, bytes),
      request,
      callOptions(options),
      (error, response) => {
        if (error !== null) reject(readError(method, error));
        else if (response !== undefined) resolve(response);
        else reject(new Error(`${method.name}: neither an error nor a response`));
      },
    );
    options?.signal?.addEventListener('abort', () => call.cancel(), { once: true });
  });
}

async function callStream(
  client: grpc.Client,
  method: Method,
  request: object,
  options?: CallOptions,
): Promise<object[]> {
  const call = client.makeServerStreamRequest(
    method.path,
    (message: object) => encode(method.requestType, message),
    (bytes: Buffer) => readResponse(method, bytes),
    request,
    callOptions(options),
  );
  options?.signal?.addEventListener('abort', () => call.cancel(), { once: true });
  const responses: object[] = [];
  try {
    for await (const response of call) responses.push(response);
  } catch (error) {
    throw isStatus(error) ? readError(method, error) : error;
  }
  return responses;
}

function callOptions(options: CallOptions | undefined): grpc.CallOptions {
  return { deadline: Date.now() + (options?.deadlineMs ?? patienceMs) };
}

function readResponse(method: Method, bytes: Buffer): object {
  const response = decode<object>(method.responseType, bytes);
  checkLimits(method.responseType, response);
  return response;
}

function readError(method: Method, status: grpc.StatusObject): CallError {
  assert.notEqual(status.details, '', `${method.name}: an error without a message (E01)`);
  assert.deepEqual(status.metadata.get('grpc-status-details-bin'), [], `${method.name}: an error with details (E01)`);
  return new CallError(method.name, status);
}

function isStatus(error: unknown): error is grpc.ServiceError {
  return error instanceof Error && 'metadata' in error && 'details' in error;
}
