import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { certifyNode, makeAuthority, makeKey } from './certificate.ts';
import { context, identifier, octets, sequence } from './der.ts';

const validity = { from: new Date(Date.now() - 60_000), days: 1 };
const authority = { ...makeAuthority('test', validity), commonName: 'test' };
const certify = (publicKey: Buffer) =>
  certifyNode({ dnsName: 'a.node.holdfast.internal', publicKey }, authority, validity);

test('a node is certified by its name, for a key of ours', () => {
  const certificate = new X509Certificate(certify(makeKey().publicKey));
  assert.equal(certificate.subjectAltName, 'DNS:a.node.holdfast.internal');
  assert.equal(certificate.ca, false);
  assert.ok(certificate.verify(new X509Certificate(authority.certificate).publicKey));
});

test('a node gets nothing into its certificate but its key', () => {
  const other = sequence(context(2, Buffer.from('controller.holdfast.internal'), false));
  const extensions = context(3, sequence(sequence(identifier('2.5.29.17'), octets(other))));
  const { publicKey } = makeKey();
  const more = Buffer.concat([publicKey, extensions]);
  let names: string | undefined = 'DNS:a.node.holdfast.internal';
  try {
    names = new X509Certificate(certify(more)).subjectAltName;
  } catch (error) {
    assert.ok(error instanceof Error && error.name === 'InvalidArgument', String(error));
  }
  assert.equal(names, 'DNS:a.node.holdfast.internal');
  assert.throws(() => certify(Buffer.from('no key')), { name: 'InvalidArgument' });
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'der' });
  assert.throws(() => certify(rsa), { name: 'InvalidArgument' });
});
