import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Connects; what the server does to the connection is no error here. */
export async function open(socketPath: string): Promise<Socket> {
  for (;;) {
    const socket = connect(socketPath);
    socket.on('error', () => undefined);
    try {
      await once(socket, 'connect');
    } catch (error) {
      // More connections wait to be accepted than the kernel keeps for a server (unix(7)).
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      await delay(10);
      continue;
    }
    socket.resume();
    return socket;
  }
}

/** Writes as long as the server reads; how many chunks it took before it closed. */
export async function flood(socketPath: string, chunks: Iterable<Uint8Array>): Promise<number> {
  const socket = await open(socketPath);
  // Not once(): that an error comes first is what happens here.
  const closed = new Promise((resolve) => socket.once('close', resolve));
  let written = 0;
  for (const chunk of chunks) {
    if (!socket.writable) break;
    written++;
    if (!socket.write(chunk)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
  }
  socket.end();
  await closed;
  return written;
}
