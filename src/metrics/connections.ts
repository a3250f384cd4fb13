import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Limits the open connections. When one more comes, another is closed: the newcomer may be the kubelet, which restarts
 * a driver that does not answer its probes, and no client may keep it out by staying.
 * @param isProbe recognises the URL of a probe
 */
export function limitConnections(server: Server, max: number, isProbe: (url: string) => boolean): void {
  /** Open connections in the order in which they came, with the answers that each still waits for. */
  const present = new Map<Socket, Set<ServerResponse>>();
  server.on('connection', (socket) => {
    present.set(socket, new Set());
    socket.once('close', () => present.delete(socket));
    if (present.size <= max) return;
    const [leaving] = [...present.keys()].filter((other) => other !== socket).sort((a, b) => claim(a) - claim(b));
    if (leaving === undefined) return;
    present.delete(leaving);
    leaving.destroy();
  });
  server.on('request', ({ socket }, response) => {
    const awaited = present.get(socket);
    awaited?.add(response);
    response.once('close', () => awaited?.delete(response));
  });

  /**
   * The rank of a connection; the lowest, and among equals the oldest, is closed first: connections without a request,
   * then those that do not read their answer, then those that wait for one, and probes last.
   */
  function claim(socket: Socket): number {
    const awaited = [...(present.get(socket) ?? [])];
    if (awaited.length === 0) return 0;
    if (awaited.some(({ req, writableEnded }) => !writableEnded && isProbe(req.url ?? ''))) return 3;
    return awaited.every((response) => response.writableEnded) ? 1 : 2;
  }
}
