import * as grpc from '@grpc/grpc-js';
import { type ServedSocket, serveSocket } from '../sockets/unix-socket.ts';
import { withTimeout } from '../volume/with-timeout.ts';

/**
 * A request has a few KiB (L02-L04), or a list of all nodes of a large cluster. Decoded, one that consists of nothing but
 * empty messages takes a hundred times its size, and the time of everybody else, so it is no larger than it has to be.
 */
const longestRequestBytes = 1024 * 1024;

/** Of one connection; who sends more at once waits. The busiest sidecar has 100. */
const mostCallsAtOnce = 1000;

/** Who has lost his connection closes his side of it in less. */
const noticeMs = 500;

/** A gRPC server without the parts that we have no use for. */
export function newServer(): grpc.Server {
  return new grpc.Server({
    'grpc.enable_channelz': 0,
    'grpc.max_concurrent_streams': mostCallsAtOnce,
    'grpc.max_receive_message_length': longestRequestBytes,
  });
}

/** A server at work on a socket. */
export interface Listener {
  /** Removes the socket: nobody new comes. Who is connected may go on. */
  hide(): Promise<void>;
  /** Removes the socket, and lets running calls finish; what still runs after `graceMs` loses its connection. */
  close(graceMs: number): Promise<void>;
}

/** Serves on a unix socket that root alone may use. */
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
  // tryShutdown alone waits as long as the slowest call, and forceShutdown knows no connections while channelz is off.
  server.drain(addressOf(socket.boundPath), graceMs);
  const closed = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  // A client that has stopped reading does not notice that it has lost its connection, and never closes its side.
  await withTimeout(graceMs + noticeMs, closed);
}

function addressOf(socketPath: string): string {
  return `unix:${socketPath}`;
}
