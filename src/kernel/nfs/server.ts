import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { DiskQueue } from '../call/disk-queue.ts';
import { decodeNullReply, encodeNullCall } from './rpc.ts';

/** A server of NFS, by the name that its users have for it. */
export interface NfsServer {
  /** A name, an IPv4 address, or an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
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
  return call({ host: address, port: server.port }, Math.max(1, untilMs - performance.now()));
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

function call({ host, port }: NfsServer, timeoutMs: number): Promise<ReachedServer | UnreachedServer> {
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
      socket.write(encodeNullCall(xid));
    });
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const reply = decodeNullReply(received, xid);
      if (reply.state === 'success') return end({ address: host, clientAddress: socket.localAddress ?? host });
      if (reply.state === 'refused') return end({ why: notVersion4(reply.versions) });
      if (reply.state === 'foreign') return end(foreign);
    });
    socket.once('end', () => end(foreign));
    socket.once('error', (error) => end({ why: `cannot be reached at port ${port} (${codeOf(error)})` }));
  });
}

function notVersion4(versions: readonly [number, number] | undefined): string {
  const has = versions === undefined ? '' : `: it has ${versions[0]} to ${versions[1]}`;
  return `does not serve NFS 4${has}`;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1000))} s`;
}
