import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { connect, isIP, type Socket } from 'node:net';
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

/** An exchange that has no answer. */
type Failure = 'unreached' | 'silent' | 'ended' | { readonly error: Error };

interface Exchange<T> {
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
  readonly request: Buffer;
  /** Reads all that has come so far; undefined: the answer is not whole yet. */
  readonly decode: (received: Buffer, socket: Socket) => T | undefined;
  readonly failed: (why: Failure) => T;
}

/** Sends one request over TCP, and reads its answer. */
function exchange<T>({ decode, failed, host, port, request, timeoutMs }: Exchange<T>): Promise<T> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    let received = Buffer.alloc(0);
    const end = (answer: T) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => end(failed(socket.connecting ? 'unreached' : 'silent')), timeoutMs);
    socket.once('connect', () => socket.write(request));
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const answer = decode(received, socket);
      if (answer !== undefined) end(answer);
    });
    socket.once('end', () => end(failed('ended')));
    socket.once('error', (error) => end(failed({ error })));
  });
}

function call({ host, port, protocol = 4 }: NfsServer, timeoutMs: number): Promise<ReachedServer | UnreachedServer> {
  const xid = randomInt(1, 2 ** 32);
  const foreign = { why: `has something else than an NFS server at port ${port}` };
  return exchange<ReachedServer | UnreachedServer>({
    ...{ host, port, timeoutMs, request: encodeNullCall(xid, protocol) },
    decode: (received, { localAddress = host }) => {
      const reply = decodeNullReply(received, xid);
      if (reply.state === 'success') return { address: host, clientAddress: localAddress };
      if (reply.state === 'refused') return { why: notVersion(protocol, reply.versions) };
      return reply.state === 'foreign' ? foreign : undefined;
    },
    failed: (why) => {
      if (why === 'ended') return foreign;
      if (typeof why === 'object') return { why: `cannot be reached at port ${port} (${codeOf(why.error)})` };
      const what = why === 'unreached' ? 'does not answer' : 'takes connections, and does not answer';
      return { why: `${what} at port ${port} (${seconds(timeoutMs)})` };
    },
  });
}

const rpcbindPort = 111;
const statdProgram = 100_024;
const statdVersion = 1;

/** Answers if rpc.statd(8) runs on this machine: without it the kernel makes no locks of NFS 3. */
export function hasStatd(port = rpcbindPort, timeoutMs = 2_000): Promise<boolean> {
  const xid = randomInt(1, 2 ** 32);
  return exchange({
    ...{ host: '127.0.0.1', port, timeoutMs, request: encodeGetPort(xid, statdProgram, statdVersion) },
    decode: (received) => {
      const found = decodeGetPort(received, xid);
      return found === undefined ? undefined : found > 0;
    },
    failed: () => false,
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
