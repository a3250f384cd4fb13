/* ONC RPC (RFC 5531): small calls, and their replies. */

/** The program that a server is asked for. */
const nfsProgram = 100_003;
/** The protocols: NFS 4 (RFC 7530) and NFS 3 (RFC 1813). */
export type NfsProtocol = 3 | 4;
/** The program that knows the ports of others (RFC 1833). */
const rpcbindProgram = 100_000;
const rpcbindVersion = 2;
const GETPORT_PROCEDURE = 3;
const TCP = 6;

const CALL = 0;
const REPLY = 1;
const RPC_VERSION = 2;
const NULL_PROCEDURE = 0;
const MSG_ACCEPTED = 0;
const SUCCESS = 0;
const PROG_UNAVAIL = 1;
const PROG_MISMATCH = 2;
/** Set in the mark of a record's last fragment. */
const LAST_FRAGMENT = 0x8000_0000;
/** A reply to the NULL procedure has 24 bytes; an opaque verifier adds at most 400. */
const maxReplyBytes = 1024;

/** A server's answer to the call that does nothing. */
export type NullReply =
  | { readonly state: 'incomplete' }
  /** It serves that version of NFS. */
  | { readonly state: 'success' }
  /** It answers, and does not serve that version; `versions` are those that it serves, if it says so. */
  | { readonly state: 'refused'; readonly versions?: readonly [lowest: number, highest: number] }
  /** The bytes are no reply to this call. */
  | { readonly state: 'foreign' };

/** Encodes a call of the NULL procedure of NFS for a stream. */
export function encodeNullCall(xid: number, protocol: NfsProtocol = 4): Buffer {
  return encodeCall(xid, [nfsProgram, protocol, NULL_PROCEDURE]);
}

/** Encodes the question for the port of a program that listens on TCP. */
export function encodeGetPort(xid: number, program: number, version: number): Buffer {
  return encodeCall(xid, [rpcbindProgram, rpcbindVersion, GETPORT_PROCEDURE], [program, version, TCP, 0]);
}

/** @returns the port; 0: there is no such program. undefined: the bytes are no whole answer to this call */
export function decodeGetPort(bytes: Buffer, xid: number): number | undefined {
  const reply = decodeReply(bytes, xid);
  return reply.state === 'success' && reply.results.length === 4 ? reply.results.readUInt32BE(0) : undefined;
}

/** One record of one fragment. */
function encodeCall(xid: number, procedure: readonly number[], parameters: readonly number[] = []): Buffer {
  // No credential and no verifier: a flavor (AUTH_NONE) and a length, each zero.
  const words = [xid, CALL, RPC_VERSION, ...procedure, 0, 0, 0, 0, ...parameters];
  const record = Buffer.alloc(4 + 4 * words.length);
  record.writeUInt32BE((LAST_FRAGMENT | (4 * words.length)) >>> 0, 0);
  for (const [index, word] of words.entries()) record.writeUInt32BE(word, 4 + 4 * index);
  return record;
}

/** Decodes what a stream has brought so far. */
export function decodeNullReply(bytes: Buffer, xid: number): NullReply {
  const reply = decodeReply(bytes, xid);
  return reply.state === 'success' ? { state: 'success' } : reply;
}

type Reply = Exclude<NullReply, { state: 'success' }> | { readonly state: 'success'; readonly results: Buffer };

function decodeReply(bytes: Buffer, xid: number): Reply {
  if (bytes.length < 4) return { state: 'incomplete' };
  const mark = bytes.readUInt32BE(0);
  const length = mark & 0x7fff_ffff;
  // No server sends so short a reply in fragments.
  if ((mark & LAST_FRAGMENT) === 0 || length > maxReplyBytes || length < 12) return { state: 'foreign' };
  if (bytes.length < 4 + length) return { state: 'incomplete' };
  const reply = bytes.subarray(4, 4 + length);
  if (reply.readUInt32BE(0) !== xid || reply.readUInt32BE(4) !== REPLY) return { state: 'foreign' };
  if (reply.readUInt32BE(8) !== MSG_ACCEPTED) return { state: 'refused' };
  if (length < 24) return { state: 'foreign' };
  // The verifier's length, and the verifier itself in whole words.
  const statusAt = 20 + 4 * Math.ceil(reply.readUInt32BE(16) / 4);
  if (statusAt + 4 > length) return { state: 'foreign' };
  const status = reply.readUInt32BE(statusAt);
  if (status === SUCCESS) return { state: 'success', results: reply.subarray(statusAt + 4) };
  if (status === PROG_MISMATCH && statusAt + 12 <= length) {
    return { state: 'refused', versions: [reply.readUInt32BE(statusAt + 4), reply.readUInt32BE(statusAt + 8)] };
  }
  return status === PROG_UNAVAIL ? { state: 'refused' } : { state: 'foreign' };
}
