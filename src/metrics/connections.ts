import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Lets no more connections be open than this. When one more comes, somebody gives way: whoever comes last may be the
 * kubelet, which restarts a driver that it cannot ask how it is, and it is no one's right to keep it out by staying.
 * @param isProbe whether that is what is asked for
 */
export function limitConnections(server: Server, most: number, isProbe: (url: string) => boolean): void {
  /** In the order in which they came, with the answers that each still waits for. */
  const present = new Map<Socket, Set<ServerResponse>>();
  server.on('connection', (socket) => {
    present.set(socket, new Set());
    socket.once('close', () => present.delete(socket));
    if (present.size <= most) return;
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
   * Who has asked nothing gives way first, then who does not take his answer, then who waits for his, and last who asks
   * how the driver is; whoever came first of these.
   */
  function claim(socket: Socket): number {
    const awaited = [...(present.get(socket) ?? [])];
    if (awaited.length === 0) return 0;
    if (awaited.some(({ req, writableEnded }) => !writableEnded && isProbe(req.url ?? ''))) return 3;
    return awaited.every((response) => response.writableEnded) ? 1 : 2;
  }
}
