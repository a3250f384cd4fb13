import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { DriverProcess } from '../support/driver.ts';
import { ask, monitored, monitoringPort } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';

/** What somebody says who never lets the driver finish with him. */
const crowds: Readonly<Record<string, string>> = {
  'connections that say nothing': '',
  'connections with half a request': 'GET /metrics HTTP/1.1\r\nhost: x\r\n',
  'connections that read no answer': 'GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(50),
};

async function crowd(port: number, count: number, words: string): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'));
  for (const socket of sockets) {
    socket.pause();
    // Whoever is sent away has lost nothing but his place.
    socket.on('error', () => undefined);
  }
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  for (const socket of sockets) socket.write(words);
  return sockets;
}

describe('the HTTP port in a crowd', () => {
  for (const [who, words] of Object.entries(crowds)) {
    for (const count of [40, 500]) {
      test(`${count} ${who} keep no probe and no scrape from its answer`, async () => {
        using scratch = new Scratch('crowd');
        await using driver = await DriverProcess.start(scratch, { environment: monitored });
        const sockets = await crowd(await monitoringPort(driver), count, words);
        try {
          for (const path of ['/healthz', '/readyz', '/metrics', '/healthz', '/healthz']) {
            assert.equal((await ask(driver, path)).status, 200, path);
          }
        } finally {
          for (const socket of sockets) socket.destroy();
        }
      });
    }
  }
});
