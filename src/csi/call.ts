import { once } from 'node:events';
import * as grpc from '@grpc/grpc-js';
import { type Method, methodsOf } from './contract.ts';
import type {
  ControllerHandlers,
  GroupControllerHandlers,
  IdentityHandlers,
  NodeHandlers,
  SnapshotMetadataHandlers,
} from './generated/types.ts';
import type { Handler, StreamHandler } from './handler.ts';
import {
  type CallOptions,
  handled,
  handledStream,
  type Incoming,
  type IncomingStream,
  type StreamCall,
  streamCall,
  type UnaryCall,
  unaryCall,
} from './pipeline.ts';
import type { FailureStatus } from './status.ts';

export type { CallContext, Handler } from './handler.ts';
export type { CallOptions } from './pipeline.ts';

/** The handlers of all services of the driver. */
export interface ServiceHandlers {
  readonly identity: IdentityHandlers;
  readonly controller?: ControllerHandlers | undefined;
  readonly node?: NodeHandlers | undefined;
  readonly groupController?: GroupControllerHandlers | undefined;
  readonly snapshotMetadata?: SnapshotMetadataHandlers | undefined;
}

/** Every RPC of some services by its path; those without a handler answer UNIMPLEMENTED (E05). */
export interface Calls {
  readonly unary: ReadonlyMap<string, UnaryCall>;
  readonly streams: ReadonlyMap<string, StreamCall>;
}

type AnyHandlers = Readonly<Record<string, Handler<never, object> | undefined>>;
type AnyStreamHandlers = Readonly<Record<string, StreamHandler<never, object> | undefined>>;

/** The calls of all services that can also be served away from the node. */
export function callsOf(handlers: Omit<ServiceHandlers, 'identity' | 'node'>, options: CallOptions): Calls {
  return {
    unary: new Map([
      ...unaryCalls('csi.v1.Controller', handlers.controller ?? {}, options),
      ...unaryCalls('csi.v1.GroupController', handlers.groupController ?? {}, options),
    ]),
    streams: streamCalls('csi.v1.SnapshotMetadata', handlers.snapshotMetadata ?? {}, options),
  };
}

/** Registers all five services of CSI with every RPC. */
export function addServices(server: grpc.Server, handlers: ServiceHandlers, options: CallOptions): void {
  addService(server, 'csi.v1.Identity', handlers.identity, { log: options.log });
  addService(server, 'csi.v1.Node', handlers.node ?? {}, options);
  addCalls(server, callsOf(handlers, options), [
    'csi.v1.Controller',
    'csi.v1.GroupController',
    'csi.v1.SnapshotMetadata',
  ]);
}

/** Registers one service of the contract, by its full name. */
export function addService(server: grpc.Server, name: string, handlers: AnyHandlers, options: CallOptions): void {
  addCalls(server, { unary: unaryCalls(name, handlers, options), streams: new Map() }, [name]);
}

/** Registers services of the contract, by their full names; `calls` must have all their RPCs. */
export function addCalls(server: grpc.Server, { streams, unary }: Calls, services: readonly string[]): void {
  for (const service of services) {
    const definition: Record<string, grpc.MethodDefinition<Buffer, Buffer>> = {};
    const implementation: Record<string, grpc.UntypedHandleCall> = {};
    for (const method of methodsOf(service)) {
      const call = unary.get(method.path);
      const stream = streams.get(method.path);
      definition[method.name] = methodDefinition(method);
      if (call !== undefined) implementation[method.name] = handleUnary(call);
      if (stream !== undefined) implementation[method.name] = handleStream(stream);
    }
    server.addService(definition, implementation);
  }
}

/** The calls of one service of the contract, by its full name. */
export function unaryCalls(service: string, handlers: AnyHandlers, options: CallOptions): Map<string, UnaryCall> {
  const calls = methodsOf(service).map((method) => {
    return [method.path, unaryCall(method, handled(method, handlers[method.name]), options)] as const;
  });
  return new Map(calls);
}

function streamCalls(service: string, handlers: AnyStreamHandlers, options: CallOptions): Map<string, StreamCall> {
  const calls = methodsOf(service).map((method) => {
    return [method.path, streamCall(method, handledStream(method, handlers[method.name]), options)] as const;
  });
  return new Map(calls);
}

/** gRPC passes bytes on: a request that cannot be decoded is answered and logged like any other bad request. */
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

function handleUnary(unary: UnaryCall): grpc.handleUnaryCall<Buffer, Buffer> {
  return (call, callback) =>
    unary(incomingOf(call), (reply) => {
      if ('failure' in reply) callback(wireStatus(reply.failure));
      else callback(null, reply.response);
    });
}

function handleStream(stream: StreamCall): grpc.handleServerStreamingCall<Buffer, Buffer> {
  return (call) => {
    const incoming: IncomingStream = {
      ...incomingOf(call),
      onGone: (listener) => call.once('cancelled', listener),
      async send(bytes, end) {
        // The stream never drains when the client is gone or does not read, and then the signal ends the wait.
        if (!call.write(bytes)) await once(call, 'drain', { signal: end });
      },
    };
    return stream(incoming, (failure) => {
      if (failure === undefined) call.end();
      else call.emit('error', wireStatus(failure));
    });
  };
}

function wireStatus({ code, message }: FailureStatus): Partial<grpc.StatusObject> {
  return { code: grpc.status[code], details: message };
}

type AnyCall = grpc.ServerUnaryCall<Buffer, Buffer> | grpc.ServerWritableStream<Buffer, Buffer>;

function incomingOf(call: AnyCall): Incoming {
  return { bytes: call.request, deadline: deadlineOf(call), isGone: () => call.cancelled };
}

function deadlineOf(call: AnyCall): Date | undefined {
  const deadline = call.getDeadline();
  if (deadline instanceof Date) return deadline;
  return Number.isFinite(deadline) ? new Date(deadline) : undefined;
}
