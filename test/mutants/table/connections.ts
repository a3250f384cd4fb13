import type { Mutant } from '../mutant.ts';

const sockets = { file: 'src/sockets/unix-socket.ts', killer: 'test/grpc/wire-listener.test.ts' } as const;
const crowd = { file: 'src/metrics/connections.ts', killer: 'test/metrics/most-connections.test.ts' } as const;
const health = { file: 'src/metrics/health.ts', killer: 'test/metrics/health.test.ts' } as const;
const routes = { file: 'src/admin/routes.ts', killer: 'test/admin/socket.test.ts' } as const;
const server = { file: 'src/server/server.ts', killer: 'test/grpc/stop.test.ts' } as const;

/** Who may reach the driver, who is kept out, and how it goes. */
export const connectionMutants: readonly Mutant[] = [
  {
    name: 'a socket is for root alone',
    ...sockets,
    text: '  await chmod(hiddenPath, 0o600);\n',
    replacement: '  await chmod(hiddenPath, 0o666);\n',
    only: 'O02 the socket is for root alone',
  },
  {
    name: 'a socket that somebody serves is not replaced',
    ...sockets,
    text: '  if (await isServed(socketPath)) throw',
    replacement: '  if (!(await isServed(socketPath)) && !status) throw',
    only: 'a socket that somebody serves',
  },
  {
    name: 'a file that is no socket is not replaced',
    ...sockets,
    text: '  if (!status.isSocket()) throw',
    replacement: '  if (!status) throw',
    only: 'a file that is no socket',
  },
  {
    name: 'a socket that somebody else has put in its place is not removed',
    ...sockets,
    text: '      if (status?.ino === ino) await',
    replacement: '      if (status) await',
    only: 'closing does not touch',
  },
  {
    name: 'of too many connections one gives way',
    ...crowd,
    text: '    if (present.size <= max) return;\n',
    replacement: '    if (present.size <= max * 1000) return;\n',
  },
  {
    name: 'who does not take his answer gives way to who waits for his',
    ...crowd,
    text: 'return awaited.every((response) => response.writableEnded) ? 1 : 2;',
    replacement: 'return 2;',
  },
  {
    name: 'who has asked nothing gives way first',
    ...crowd,
    text: 'if (awaited.length === 0) return 0;',
    replacement: 'if (awaited.length === 0) return 3;',
  },
  {
    name: 'a driver whose socket is gone does not live',
    ...health,
    text: 'if (!answer.answered) {',
    replacement: "if (this.#options.socketPath === '') {",
    only: 'a driver whose socket is gone',
  },
  {
    name: 'a driver without a pool that works is not ready',
    ...health,
    text: "return pools.some(({ state }) => state === 'open')",
    replacement: 'return pools.length > 0',
    only: 'the only pool in quarantine: not ready',
  },
  {
    name: 'a driver that waits for a pool is not ready',
    ...health,
    text: "    if (!answer.ready) return textPage(503, 'The driver is starting.', ...lines);\n",
    replacement: '',
    only: 'waits for a pool',
  },
  {
    name: 'the operator names a volume by an id of ours',
    ...routes,
    text: '  if (id !== undefined) return id;\n  context',
    replacement: '  if (text !== undefined) return text as typeof id & string;\n  context',
    only: 'what it does not know',
  },
  {
    name: 'what is no command is refused',
    ...routes,
    text: 'const match = route.method === method ? route.path.exec(path) : null;',
    replacement: 'const match = route.path.exec(path);',
    only: 'what it does not know',
  },
  {
    name: 'a driver that is stopping is not registered',
    ...server,
    text: "    if (outcome === 'stopped' || stopping.aborted) return undefined;\n",
    replacement: '',
    only: 'kubelet never hears',
  },
  {
    name: 'who waits for a pool is told that the driver is stopping',
    ...server,
    text: '      pools.stopOpening();\n',
    replacement: '',
    only: 'kubelet never hears',
  },
  {
    name: 'a stop finishes the calls that run',
    ...server,
    text: 'const isIdle = await inFlight.idle(callGraceMs);',
    replacement: 'const isIdle = await inFlight.idle(0);',
    killer: 'test/grpc/server.test.ts',
    only: 'SIGTERM finishes the calls',
  },
  {
    name: 'a call waits for the pools to open',
    file: 'src/server/startup-gate.ts',
    text: '      await this.#opened;\n',
    replacement: '',
    killer: 'test/grpc/server.test.ts',
    only: 'waits for them',
  },
  {
    name: 'a stop closes the pools',
    ...server,
    text: '.then(() => pools.close());',
    replacement: '.then(() => undefined);',
    killer: 'test/grpc/server.test.ts',
    only: 'no configuration at all',
  },
  {
    name: 'a driver does not share a pool with another one',
    ...server,
    text: '    if (error instanceof PoolHeld) throw error;\n',
    replacement: '',
    killer: 'test/grpc/server.test.ts',
    only: 'the second gives up',
  },
  {
    name: 'the kubelet meets no socket under its name before that is served',
    ...sockets,
    text: 'path.join(path.dirname(socketPath), `.',
    replacement: 'path.join(path.dirname(socketPath), `_',
    only: 'whoever watches the directory',
  },
  {
    name: 'a disk that two PersistentVolumes name is used by one of them',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    text: '      await this.#requireAlone(access.kind, volume);\n',
    replacement: '',
  },
  {
    name: 'of two PersistentVolumes of one disk that come at once one is refused',
    file: 'src/pool/on-node/context-volumes.ts',
    killer: 'test/grpc/context-volumes.test.ts',
    text: 'this.#held.add(volume.handle);',
    replacement: '',
  },
  {
    name: 'a volume that is not left waits for its target again',
    file: 'src/pool/network-disk/leave.ts',
    killer: 'src/pool/network-disk/leave.test.ts',
    text: '    await target.resume?.(queue, volume, notes.note);\n',
    replacement: '',
  },
];
