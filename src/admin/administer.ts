import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SocketTaken } from '../sockets/unix-socket.ts';
import { type AdminServer, type AdminServerOptions, serveAdmin } from './listener.ts';

export interface AdministerOptions extends AdminServerOptions {
  /** Resolves once the pools belong to this driver. */
  readonly opened: Promise<void>;
  readonly isStopping: () => boolean;
}

/**
 * Serves the operator's commands while the driver runs. Volumes work without them, so a socket that cannot be served
 * stops nothing. A driver that hands its pools over to this one still serves the socket until then.
 */
export async function administer(options: AdministerOptions): Promise<AdminServer | undefined> {
  const { isStopping, log, opened, socketPath } = options;
  try {
    await mkdir(dirname(socketPath), { recursive: true, mode: 0o700 });
    const admin = await serveAdmin(options).catch(async (error: unknown) => {
      if (!(error instanceof SocketTaken)) throw error;
      const isOurs = await opened.then(
        () => !isStopping(),
        () => false,
      );
      return isOurs ? serveAdmin(options) : undefined;
    });
    if (isStopping()) await admin?.close(0);
    else if (admin !== undefined) log.info({ socket: socketPath }, 'listening for the operator');
    return admin;
  } catch (error) {
    log.error({ reason: error instanceof Error ? error.message : error }, "cannot serve the operator's commands");
    return undefined;
  }
}
