import * as grpc from '@grpc/grpc-js';
import { type ServedSocket, serveSocket } from '../sockets/unix-socket.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';

/**
 * Maximum size of a request. Real ones have a few KiB (L02-L04), or list all nodes of a large cluster. A request of
 * nothing but empty messages takes a hundred times its size when decoded, and delays all other calls, so the limit is
 * tight.
 */
const longestRequestBytes = 1024 * 1024;

/** Maximum of concurrent calls on one connection; more calls wait. The busiest sidecar has 100. */
const maxConcurrentCalls = 1000;

/** Time after which a client that lost its connection has closed its side. */
const noticeMs = 500;

/** Makes a gRPC server without the parts that we do not use. */
export function newServer(): grpc.Server {
  return new grpc.Server({
    'grpc.enable_channelz': 0,
    'grpc.max_concurrent_streams': maxConcurrentCalls,
    'grpc.max_receive_message_length': longestRequestBytes,
  });
}

/** A server that listens on a socket. */
export interface Listener {
  /** Removes the socket, so no new client can connect. Existing connections stay. */
  hide(): Promise<void>;
  /** Removes the socket and lets running calls finish; calls that still run after `graceMs` lose their connection. */
  close(graceMs: number): Promise<void>;
}

/** Serves on a unix socket that only root may use. */
export async function listen(server: grpc.Server, socketPath: string): Promise<Listener> {
  const socket = await serveSocket(socketPath, (path) => bind(server, path));
  return { hide: () => socket.remove(), close: (graceMs) => close(server, socket, graceMs) };
}

function bind(server: grpc.Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.bindAsync(addressOf(socketPath), grpc.ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}

async function close(server: grpc.Server, socket: ServedSocket, graceMs: number): Promise<void> {
  await socket.remove();
  // tryShutdown alone waits for the slowest call, and forceShutdown knows no connections while channelz is off.
  server.drain(addressOf(socket.boundPath), graceMs);
  const closed = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  // A client that has stopped reading does not notice the lost connection, and never closes its side.
  await withTimeout(graceMs + noticeMs, closed);
}

function addressOf(socketPath: string): string {
  return `unix:${socketPath}`;
}
