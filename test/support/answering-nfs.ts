import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { serializeNote } from '../../src/pool/on-node/volume-notes.ts';
import { fileNameOf, parseHandle } from '../../src/volume/handle.ts';
import type { Scratch } from './scratch.ts';

/** A server that answers the call of NFS 4 that does nothing, and no other. */
export class AnsweringNfs implements Disposable {
  readonly #server: Server;
  #port = 0;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('data', (call: Buffer) => {
        // Accepted, without a verifier, success.
        const words = [0x8000_0018, 0, 1, 0, 0, 0, 0];
        const reply = Buffer.alloc(4 * words.length);
        for (const [index, word] of words.entries()) reply.writeUInt32BE(word, 4 * index);
        call.copy(reply, 4, 4, 8);
        socket.write(reply);
      });
    });
  }

  static async start(): Promise<AnsweringNfs> {
    const server = new AnsweringNfs();
    await once(server.#server.listen(0, '127.0.0.1'), 'listening');
    server.#port = (server.#server.address() as AddressInfo).port;
    return server;
  }

  get port(): number {
    return this.#port;
  }

  /** For a driver that is started next: a volume of this server is in use on its node. */
  noteVolume(scratch: Pick<Scratch, 'join'>): void {
    const handle = parseHandle('on-nfs');
    if (handle === undefined) throw new Error('no handle');
    const context = { server: '127.0.0.1', share: '/export', mountOptions: `port=${this.port}` };
    const volume = { handle, context, content: { type: 'directory' }, provisioning: 'thin' } as const;
    mkdirSync(scratch.join('data', 'volumes'), { recursive: true, mode: 0o700 });
    const path = scratch.join('data', 'volumes', `${fileNameOf(handle)}.json`);
    writeFileSync(path, serializeNote({ kind: 'nfs', volume, paths: ['/var/lib/kubelet/on-nfs'] }), { mode: 0o600 });
  }

  [Symbol.dispose](): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
