import * as grpc from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { HoldfastError, InvalidArgument, Unavailable } from '../volume/errors.ts';
import { CallLog } from './call-log.ts';
import { decode, encode, type Method, methodsOf } from './contract.ts';
import type {
  ControllerHandlers,
  GroupControllerHandlers,
  IdentityHandlers,
  NodeHandlers,
  SnapshotMetadataHandlers,
} from './generated/types.ts';
import type { CallContext, Handler, StreamHandler } from './handler.ts';
import { checkLimits } from './limits.ts';
import { checkRequired } from './required.ts';
import { type FailureStatus, toStatus } from './status.ts';
import { isAbort, type ResponseStream, sendAll } from './stream.ts';

export type { CallContext, Handler } from './handler.ts';

/** What the driver offers. */
export interface ServiceHandlers {
  readonly identity: IdentityHandlers;
  readonly controller?: ControllerHandlers | undefined;
  readonly node?: NodeHandlers | undefined;
  readonly groupController?: GroupControllerHandlers | undefined;
  readonly snapshotMetadata?: SnapshotMetadataHandlers | undefined;
}

export interface CallOptions {
  readonly log: Logger;
  /** While it answers false, all services but Identity answer UNAVAILABLE: the driver is starting or stopping. */
  readonly ready?: () => boolean;
  /** Aborted when the driver stops: streams end then, which can be gone on with, also if a client does not read. */
  readonly stopping?: AbortSignal | undefined;
}

/** A handler of any RPC; which one its request is for is known where it is registered. */
type AnyHandler = Handler<never, object>;
type AnyHandlers = Readonly<Record<string, AnyHandler | undefined>>;
type AnyStreamHandler = StreamHandler<never, object>;
type AnyStreamHandlers = Readonly<Record<string, AnyStreamHandler | undefined>>;

/** Registers all five services of CSI with every RPC; those without a handler answer UNIMPLEMENTED (E05). */
export function addServices(server: grpc.Server, handlers: ServiceHandlers, options: CallOptions): void {
  addService(server, 'csi.v1.Identity', handlers.identity, { log: options.log });
  addService(server, 'csi.v1.Controller', handlers.controller ?? {}, options);
  addService(server, 'csi.v1.Node', handlers.node ?? {}, options);
  addService(server, 'csi.v1.GroupController', handlers.groupController ?? {}, options);
  addStreams(server, 'csi.v1.SnapshotMetadata', handlers.snapshotMetadata ?? {}, options);
}

/** Registers one service of the contract, by its full name. */
export function addService(server: grpc.Server, name: string, handlers: AnyHandlers, options: CallOptions): void {
  register(server, name, (method) => unary(method, handlers[method.name], options));
}

/** Registers one service of the contract whose responses are streams. */
function addStreams(server: grpc.Server, name: string, handlers: AnyStreamHandlers, options: CallOptions): void {
  register(server, name, (method) => stream(method, handlers[method.name], options));
}

function register(server: grpc.Server, name: string, implement: (method: Method) => grpc.UntypedHandleCall): void {
  const definition: Record<string, grpc.MethodDefinition<Buffer, Buffer>> = {};
  const implementation: Record<string, grpc.UntypedHandleCall> = {};
  for (const method of methodsOf(name)) {
    definition[method.name] = methodDefinition(method);
    implementation[method.name] = implement(method);
  }
  server.addService(definition, implementation);
}

/** gRPC hands over bytes: what cannot be decoded is answered and logged as any other bad request is. */
function methodDefinition(method: Method): grpc.MethodDefinition<Buffer, Buffer> {
  return {
    path: method.path,
    requestStream: false,
    responseStream: method.responseStream,
    requestSerialize: (bytes) => bytes,
    requestDeserialize: (bytes) => bytes,
    responseSerialize: (bytes) => bytes,
    responseDeserialize: (bytes) => bytes,
  };
}

function unary<Q extends object>(
  method: Method,
  handler: Handler<Q, object> | undefined,
  options: CallOptions,
): grpc.handleUnaryCall<Buffer, Buffer> {
  return async (call, callback) => {
    const line = new CallLog(options.log, method);
    let response: Buffer;
    try {
      response = await answer(method, handler, call, line, options);
    } catch (error) {
      const failure = toStatus(error, line.subject);
      callback(wireStatus(failure));
      line.failed(failure, call.cancelled);
      return;
    }
    callback(null, response);
    line.succeeded(call.cancelled);
  };
}

function stream<Q extends object>(
  method: Method,
  handler: StreamHandler<Q, object> | undefined,
  options: CallOptions,
): grpc.handleServerStreamingCall<Buffer, Buffer> {
  return async (call) => {
    const line = new CallLog(options.log, method);
    try {
      await answerAll(method, handler, call, line, options);
    } catch (error) {
      if (call.cancelled && isAbort(error)) return line.abandoned();
      const failure = toStatus(error, line.subject);
      // Ends the stream with this status, after what was sent already (SM12).
      if (!call.cancelled) call.emit('error', wireStatus(failure));
      line.failed(failure, call.cancelled);
      return;
    }
    call.end();
    line.succeeded(false);
  };
}

function wireStatus({ code, message }: FailureStatus): Partial<grpc.StatusObject> {
  return { code: grpc.status[code], details: message };
}

type AnyCall = grpc.ServerUnaryCall<Buffer, Buffer> | ResponseStream;

/** The way of one request (checklist §8). A client that went away is not heard of: work is never undone (T02). */
async function answer<Q extends object>(
  method: Method,
  handler: Handler<Q, object> | undefined,
  call: grpc.ServerUnaryCall<Buffer, Buffer>,
  line: CallLog,
  options: CallOptions,
): Promise<Buffer> {
  if (handler === undefined) throw new Unimplemented(`${method.name} is not offered by this driver.`);
  const request = accept<Q>(method, call, line, options);
  return encode(method.responseType, await handler(request, contextOf(call, line)));
}

/** The same for a stream: only that nothing is left to be done once the client went away (SM13). */
async function answerAll<Q extends object>(
  method: Method,
  handler: StreamHandler<Q, object> | undefined,
  call: ResponseStream,
  line: CallLog,
  options: CallOptions,
): Promise<void> {
  if (handler === undefined) throw new Unimplemented(`${method.name} is not offered by this driver.`);
  const request = accept<Q>(method, call, line, options);
  const end = new AbortController();
  const endIt = () => end.abort();
  call.once('cancelled', endIt);
  options.stopping?.addEventListener('abort', endIt);
  const context = { ...contextOf(call, line), signal: end.signal };
  const mayGoOn = () => {
    if (options.ready?.() === false) throw new Unavailable('The driver is stopping; go on from where it was later.');
  };
  try {
    await sendAll(call, end.signal, handler(request, context), (response) => {
      mayGoOn();
      return encode(method.responseType, response);
    });
  } catch (error) {
    if (!call.cancelled && isAbort(error)) mayGoOn();
    throw error;
  } finally {
    options.stopping?.removeEventListener('abort', endIt);
  }
}

/** @throws Unavailable, InvalidArgument */
function accept<Q extends object>(method: Method, call: AnyCall, line: CallLog, options: CallOptions): Q {
  if (options.ready?.() === false) throw new Unavailable('The driver is starting or stopping; try again.');
  const request = readRequest<Q>(method, call.request);
  line.request(request);
  checkRequired(method.name, request);
  checkLimits(method.requestType, request);
  return request;
}

function contextOf(call: AnyCall, line: CallLog): CallContext {
  return { deadline: deadlineOf(call), note: (fields) => line.note(fields) };
}

function readRequest<Q>(method: Method, bytes: Buffer): Q {
  try {
    return decode<Q>(method.requestType, bytes);
  } catch (cause) {
    throw new InvalidArgument(`The request is not a well-formed ${method.requestType.name}.`, { cause });
  }
}

function deadlineOf(call: AnyCall): Date | undefined {
  const deadline = call.getDeadline();
  if (deadline instanceof Date) return deadline;
  return Number.isFinite(deadline) ? new Date(deadline) : undefined;
}

/** The capability for the RPC is not advertised (E05). */
class Unimplemented extends HoldfastError {
  override readonly code = 'UNIMPLEMENTED';
}
