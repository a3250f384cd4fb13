import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { DiskQueue } from '../call/disk-queue.ts';
import { decodeGetPort, decodeNullReply, encodeGetPort, encodeNullCall, type NfsProtocol } from './rpc.ts';

/** A server of NFS, by the name that its users have for it. */
export interface NfsServer {
  /** A name, an IPv4 address, or an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
  /** NFS 4 unless it says 3. */
  readonly protocol?: NfsProtocol | undefined;
}

export const defaultNfsPort = 2049;

/** A server that answers, and how it is reached. */
export interface ReachedServer {
  /** An IP address. */
  readonly address: string;
  /** The address of this machine that it sees. */
  readonly clientAddress: string;
}

/** A server that cannot be used, as a sentence without its full stop that goes on from its name. */
export interface UnreachedServer {
  readonly why: string;
}

/** Names are looked up on worker threads (getaddrinfo(3)), so a name server that is silent takes at most these. */
const names = new DiskQueue('names', 2);

/**
 * Asks a server, in user space, before the kernel is: a mount of a server that is gone takes minutes to fail.
 * @param timeoutMs for its name, its connection and its answer together
 */
export async function askServer(server: NfsServer, timeoutMs: number): Promise<ReachedServer | UnreachedServer> {
  const untilMs = performance.now() + timeoutMs;
  const address = await addressOf(server.host, timeoutMs);
  if (typeof address !== 'string') return address;
  return call({ ...server, host: address }, Math.max(1, untilMs - performance.now()));
}

export function isReached(answer: ReachedServer | UnreachedServer): answer is ReachedServer {
  return 'address' in answer;
}

async function addressOf(host: string, timeoutMs: number): Promise<string | UnreachedServer> {
  if (isIP(host) !== 0) return host;
  try {
    const found = await withTimeout(
      timeoutMs,
      names.run(() => lookup(host)),
    );
    return found === 'late' ? { why: `has a name that was not found within ${seconds(timeoutMs)}` } : found.address;
  } catch (error) {
    return { why: `has a name that is not found (${codeOf(error)})` };
  }
}

function call({ host, port, protocol = 4 }: NfsServer, timeoutMs: number): Promise<ReachedServer | UnreachedServer> {
  const xid = randomInt(1, 2 ** 32);
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    let isConnected = false;
    let received = Buffer.alloc(0);
    const end = (answer: ReachedServer | UnreachedServer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const foreign = { why: `has something else than an NFS server at port ${port}` };
    const timer = setTimeout(() => {
      const what = isConnected ? 'takes connections, and does not answer' : 'does not answer';
      end({ why: `${what} at port ${port} (${seconds(timeoutMs)})` });
    }, timeoutMs);
    socket.once('connect', () => {
      isConnected = true;
      socket.write(encodeNullCall(xid, protocol));
    });
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const reply = decodeNullReply(received, xid);
      if (reply.state === 'success') return end({ address: host, clientAddress: socket.localAddress ?? host });
      if (reply.state === 'refused') return end({ why: notVersion(protocol, reply.versions) });
      if (reply.state === 'foreign') return end(foreign);
    });
    socket.once('end', () => end(foreign));
    socket.once('error', (error) => end({ why: `cannot be reached at port ${port} (${codeOf(error)})` }));
  });
}

const rpcbindPort = 111;
const statdProgram = 100_024;
const statdVersion = 1;

/** Answers if rpc.statd(8) runs on this machine: without it the kernel makes no locks of NFS 3. */
export function hasStatd(port = rpcbindPort, timeoutMs = 2_000): Promise<boolean> {
  const xid = randomInt(1, 2 ** 32);
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    let received = Buffer.alloc(0);
    const end = (answer: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => end(false), timeoutMs);
    socket.once('connect', () => socket.write(encodeGetPort(xid, statdProgram, statdVersion)));
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const found = decodeGetPort(received, xid);
      if (found !== undefined) end(found > 0);
    });
    socket.once('end', () => end(false));
    socket.once('error', () => end(false));
  });
}

function notVersion(protocol: NfsProtocol, versions: readonly [number, number] | undefined): string {
  const has = versions === undefined ? '' : `: it has ${versions[0]} to ${versions[1]}`;
  return `does not serve NFS ${protocol}${has}`;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1000))} s`;
}
