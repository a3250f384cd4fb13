import { chmod, lstat, rename, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import * as grpc from '@grpc/grpc-js';

/** A request has a few KiB at most (L02-L04), a page of ListVolumes is ours to size: gRPC's default is plenty. */
const longestRequestBytes = 4 * 1024 * 1024;

/** sockaddr_un has room for this much, less the final NUL (unix(7)). */
const longestSocketPathBytes = 107;

/** A gRPC server without the parts that we have no use for. */
export function newServer(): grpc.Server {
  return new grpc.Server({
    'grpc.enable_channelz': 0,
    'grpc.max_receive_message_length': longestRequestBytes,
  });
}

/** A server at work on a socket. */
export interface Listener {
  /** Removes the socket, and lets running calls finish; what still runs after `graceMs` loses its connection. */
  close(graceMs: number): Promise<void>;
}

/**
 * Serves on a unix socket that root alone may use. A socket that a killed process left is replaced, one that somebody
 * still serves is an error (O02). The socket is bound under a hidden name and renamed, so that nobody meets it with
 * other rights, and the kubelet, which watches the directory of plugins but ignores hidden files, not too early.
 */
export async function listen(server: grpc.Server, socketPath: string): Promise<Listener> {
  const hiddenPath = hiddenPathOf(socketPath);
  if (Buffer.byteLength(hiddenPath) > longestSocketPathBytes) {
    throw new Error(
      `The socket path ${socketPath} is too long: a socket's address has ${longestSocketPathBytes} bytes.`,
    );
  }
  await assertFree(socketPath);
  await rm(hiddenPath, { force: true });
  await bind(server, hiddenPath);
  await chmod(hiddenPath, 0o600);
  const { ino } = await lstat(hiddenPath);
  await rename(hiddenPath, socketPath);
  return { close: (graceMs) => close(server, socketPath, ino, graceMs) };
}

function bind(server: grpc.Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.bindAsync(addressOf(socketPath), grpc.ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}

/** @throws Error if the path is taken by a server at work, or by something that is no socket at all */
async function assertFree(socketPath: string): Promise<void> {
  const status = await lstat(socketPath).catch(ignoreMissing);
  if (status === undefined) return;
  if (!status.isSocket()) throw new Error(`${socketPath} is not a socket: move it away, or choose another path.`);
  if (await isServed(socketPath)) throw new Error(`Another process serves ${socketPath}: stop it first.`);
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

function isServed(socketPath: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(false);
      else reject(error);
    });
  });
}

async function close(server: grpc.Server, socketPath: string, ino: number, graceMs: number): Promise<void> {
  const status = await lstat(socketPath).catch(ignoreMissing);
  // Whoever took the path over in the meantime keeps it.
  if (status?.ino === ino) await rm(socketPath, { force: true });
  // tryShutdown alone waits as long as the slowest call, and forceShutdown knows no connections while channelz is off.
  server.drain(addressOf(hiddenPathOf(socketPath)), graceMs);
  await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
}

function hiddenPathOf(socketPath: string): string {
  return path.join(path.dirname(socketPath), `.${path.basename(socketPath)}`);
}

function addressOf(socketPath: string): string {
  return `unix:${socketPath}`;
}
