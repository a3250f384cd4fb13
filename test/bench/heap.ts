import { setTimeout as delay } from 'node:timers/promises';
import type { DriverProcess } from './driver-process.ts';

/** With these the driver can be asked for its heap; until it is, they change nothing. */
export const heapArguments: readonly string[] = ['--inspect-port=0'];

/** What lives on the driver's heap after a collection. Starts Node's inspector in it, so its other figures come first. */
export async function liveHeapBytes(driver: DriverProcess): Promise<number> {
  driver.signal('SIGUSR1');
  const socket = new WebSocket(await inspectorUrl(driver));
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error("the driver's inspector cannot be reached")), {
      once: true,
    });
  });
  try {
    // Twice: the first one runs finalizers, the second collects what they let go.
    await ask(socket, 'HeapProfiler.collectGarbage');
    await ask(socket, 'HeapProfiler.collectGarbage');
    const usage = await ask(socket, 'Runtime.getHeapUsage');
    return Number(usage['usedSize']);
  } finally {
    socket.close();
  }
}

async function inspectorUrl(driver: DriverProcess): Promise<string> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const url = /Debugger listening on (ws:\S+)\n/.exec(driver.output())?.[1];
    if (url !== undefined) return url;
    await delay(10);
  }
  throw new Error('the driver did not start its inspector');
}

let requestNumber = 0;

/** One request of the inspector's protocol. */
function ask(socket: WebSocket, method: string): Promise<Record<string, unknown>> {
  const id = ++requestNumber;
  return new Promise((resolve, reject) => {
    socket.addEventListener('close', () => reject(new Error('the driver ended while it was asked for its heap')));
    const onMessage = (event: MessageEvent) => {
      const message: { id?: number; result?: Record<string, unknown> } = JSON.parse(String(event.data));
      if (message.id !== id) return;
      socket.removeEventListener('message', onMessage);
      resolve(message.result ?? {});
    };
    socket.addEventListener('message', onMessage);
    socket.send(JSON.stringify({ id, method }));
  });
}
