import { chmod, lstat, rename, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { ignoreMissing } from '../kernel/call/errno.ts';

/** sockaddr_un has room for this much, less the final NUL (unix(7)). */
const longestPathBytes = 107;

/** A socket that this process serves. */
export interface ServedSocket {
  /** The name that it was bound under. */
  readonly boundPath: string;
  /** Removes the socket, unless another process has taken the path over. */
  remove(): Promise<void>;
}

/** Another process serves the socket. */
export class SocketTaken extends Error {}

/**
 * Serves on a unix socket that only root may use. A socket that a killed process left is replaced; a socket that is
 * still served is an error (O02). The socket is bound under a hidden name and renamed. So no client sees it with other
 * permissions, and the kubelet, which watches the directory of plugins but ignores hidden files, does not see it too
 * early.
 * @throws SocketTaken, or Error if the path cannot be a socket
 */
export async function serveSocket(
  socketPath: string,
  bind: (hiddenPath: string) => Promise<void>,
): Promise<ServedSocket> {
  const hiddenPath = path.join(path.dirname(socketPath), `.${path.basename(socketPath)}`);
  if (Buffer.byteLength(hiddenPath) > longestPathBytes) {
    throw new Error(`The socket path ${socketPath} is too long: a socket's address has ${longestPathBytes} bytes.`);
  }
  await requireDirectory(socketPath);
  await assertFree(socketPath);
  await rm(hiddenPath, { force: true });
  await bind(hiddenPath);
  await chmod(hiddenPath, 0o600);
  const { ino } = await lstat(hiddenPath);
  await rename(hiddenPath, socketPath);
  return {
    boundPath: hiddenPath,
    async remove() {
      const status = await lstat(socketPath).catch(ignoreMissing);
      if (status?.ino === ino) await rm(socketPath, { force: true });
    },
  };
}

/** A directory made here would hide a mistyped path: no client looks for a socket in it (O01). */
async function requireDirectory(socketPath: string): Promise<void> {
  const directory = path.dirname(socketPath);
  const status = await stat(directory).catch(ignoreMissing);
  if (status?.isDirectory() === true) return;
  throw new Error(
    `The directory ${directory} of the socket ${socketPath} does not exist: create it, or choose another path.`,
  );
}

/** @throws SocketTaken if a server still uses it, Error if the path is taken by something that is no socket */
async function assertFree(socketPath: string): Promise<void> {
  const status = await lstat(socketPath).catch(ignoreMissing);
  if (status === undefined) return;
  if (!status.isSocket()) throw new Error(`${socketPath} is not a socket: move it away, or choose another path.`);
  if (await isServed(socketPath)) throw new SocketTaken(`Another process serves ${socketPath}: stop it first.`);
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
