import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeGetPort, decodeNullReply, encodeGetPort, encodeNullCall, type NullReply } from './rpc.ts';

const xid = 0x89abcdef;

function reply(...words: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 + 4 * words.length);
  bytes.writeUInt32BE((0x8000_0000 | (4 * words.length)) >>> 0, 0);
  for (const [index, word] of words.entries()) bytes.writeUInt32BE(word, 4 + 4 * index);
  return bytes;
}

test('the call that does nothing is one record of ten words (RFC 5531)', () => {
  const expected = '80000028 89abcdef 00000000 00000002 000186a3 00000004 00000000 00000000 00000000 00000000 00000000';
  assert.equal(encodeNullCall(xid).toString('hex'), expected.replaceAll(' ', ''));
});

test('the call of NFS 3, and the question for a port, differ in these words (RFC 1813, RFC 1833)', () => {
  const words = (bytes: Buffer) =>
    Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readUInt32BE(4 * index));
  assert.deepEqual(words(encodeNullCall(xid, 3)).slice(4, 7), [100_003, 3, 0]);
  const question = words(encodeGetPort(xid, 100_024, 1));
  assert.deepEqual(question.slice(4, 7), [100_000, 2, 3]);
  assert.deepEqual(question.slice(11), [100_024, 1, 6, 0]);
});

test('the port of a program is read, and 0 for one that is not there', () => {
  assert.equal(decodeGetPort(reply(xid, 1, 0, 0, 0, 0, 33_333), xid), 33_333);
  assert.equal(decodeGetPort(reply(xid, 1, 0, 0, 0, 0, 0), xid), 0);
  const others = [reply(xid, 1, 0, 0, 0, 0), reply(1, 1, 0, 0, 0, 0, 33_333), reply(xid, 1, 0, 0, 0, 1)];
  for (const bytes of others) assert.equal(decodeGetPort(bytes, xid), undefined);
});

test('its reply is read, however much of it has come', () => {
  const success = reply(xid, 1, 0, 0, 0, 0);
  assert.deepEqual(decodeNullReply(success, xid), { state: 'success' });
  for (let length = 0; length < success.length; length++) {
    assert.deepEqual(decodeNullReply(success.subarray(0, length), xid), { state: 'incomplete' });
  }
  assert.deepEqual(decodeNullReply(Buffer.concat([success, success]), xid), { state: 'success' });
});

test('a verifier is passed over', () => {
  assert.deepEqual(decodeNullReply(reply(xid, 1, 0, 1, 5, 7, 7, 0), xid), { state: 'success' });
});

test('a server without NFS 4 is told from one that is no NFS server', () => {
  const cases: readonly (readonly [string, Buffer, NullReply])[] = [
    ['versions 2 and 3 alone', reply(xid, 1, 0, 0, 0, 2, 2, 3), { state: 'refused', versions: [2, 3] }],
    ['no NFS', reply(xid, 1, 0, 0, 0, 1), { state: 'refused' }],
    ['denied', reply(xid, 1, 1, 1, 5), { state: 'refused' }],
    ['another call', reply(1, 1, 0, 0, 0, 0), { state: 'foreign' }],
    ['a call', reply(xid, 0, 2, 0, 0, 0), { state: 'foreign' }],
    ['a web server', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'), { state: 'foreign' }],
    ['a secure shell', Buffer.from('SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n'), { state: 'foreign' }],
    ['a verifier that is cut short', reply(xid, 1, 0, 1, 400, 0), { state: 'foreign' }],
    ['too short', reply(xid, 1), { state: 'foreign' }],
  ];
  for (const [what, bytes, expected] of cases) assert.deepEqual(decodeNullReply(bytes, xid), expected, what);
});
