import assert from 'node:assert/strict';
import * as http2 from 'node:http2';
import { after, before, describe, test } from 'node:test';
import { framed, rawCall } from './wire-http2.ts';
import { WireServer } from './wire-server.ts';

/*
 * O06: what clients put into :authority for a unix socket differs. Node hands HTTP/2 to nghttp2, which checks the
 * characters of the value (RFC 3986: the host of a URI) before any JavaScript sees the request, and resets the stream
 * with PROTOCOL_ERROR if it does not like them. No option of http2.createServer changes that: measured with
 * strictFieldWhitespaceValidation, strictSingleValueFields and maxSessionInvalidFrames on Node 26. So these
 * tests say what clients can rely on: a percent-encoded path is served, a path with slashes is not. csi-sanity, today's
 * sidecars and the kubelet send `localhost`.
 */

let server: WireServer;
before(async () => {
  server = await WireServer.start();
});
after(() => server[Symbol.asyncDispose]());

const probe = { path: '/csi.v1.Identity/Probe', body: framed(Buffer.alloc(0)) };

describe('O06 :authority', () => {
  for (const authority of [
    'localhost',
    'localhost:0',
    'csi.sock',
    '%2Fvar%2Flib%2Fkubelet%2Fplugins%2Fholdfast.csi.dev%2Fcsi.sock',
    '%2fcsi%20with%20spaces.sock',
    'holdfast_csi~1,2;a=b',
    '[::1]:9000',
    '127.0.0.1',
    'x'.repeat(1000),
  ]) {
    test(`'${authority.slice(0, 70)}' is served`, async () => {
      const answer = await rawCall(server.socketPath, { ...probe, headers: { ':authority': authority } });
      assert.equal(answer.grpcStatus, '0', JSON.stringify(answer));
    });
  }

  for (const authority of ['/var/lib/kubelet/plugins/holdfast.csi.dev/csi.sock', 'unix:///csi.sock', 'a b', '']) {
    test(`'${authority}' is reset by Node's HTTP/2, and only that stream`, async () => {
      const answer = await rawCall(server.socketPath, { ...probe, headers: { ':authority': authority } });
      assert.equal(answer.resetCode, http2.constants.NGHTTP2_PROTOCOL_ERROR);
      assert.equal(answer.grpcStatus, undefined);
      await server.client.identity.Probe({});
    });
  }
});
