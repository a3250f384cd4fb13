import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { InvalidArgument } from '../../volume/errors.ts';
import { bits, boolean, context, identifier, integer, octets, sequence, set, text, time } from './der.ts';

/*
 * The two certificates of a controller: of its authority, and of its server (RFC 5280). node:crypto makes keys and
 * signatures and reads certificates, but writes none.
 */

/** A key and its certificate, as PEM. */
export interface KeyPair {
  readonly key: string;
  readonly certificate: string;
}

export interface Validity {
  readonly from: Date;
  readonly days: number;
}

const ecdsaWithSha256 = sequence(identifier('1.2.840.10045.4.3.2'));
const names = { commonName: '2.5.4.3' };
const extensions = {
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
};
const serverAuth = '1.3.6.1.5.5.7.3.1';
const clientAuth = '1.3.6.1.5.5.7.3.2';

const dayMs = 24 * 60 * 60 * 1000;

/** An authority that signs itself, and may sign servers. */
export function makeAuthority(commonName: string, validity: Validity): KeyPair {
  const { key, publicKey } = makeKey();
  const certificate = certificateOf({
    subject: commonName,
    publicKey,
    issuer: commonName,
    issuerKey: key,
    issuerPublicKey: publicKey,
    validity,
    usage: [
      extension(extensions.basicConstraints, sequence(boolean(true), integer(Buffer.from([0]))), true),
      // keyCertSign (RFC 5280, 4.2.1.3)
      extension(extensions.keyUsage, bits(Buffer.from([0x04]), 2), true),
    ],
  });
  return { key, certificate };
}

/** A server with that name, signed by the authority. */
export function makeServer(
  dnsName: string,
  authority: KeyPair & { readonly commonName: string },
  validity: Validity,
): KeyPair {
  const { key, publicKey } = makeKey();
  return { key, certificate: signed({ dnsName, publicKey, uses: [serverAuth] }, authority, validity) };
}

/**
 * A node that proves itself to other nodes, as server and as client, with a key that it has made.
 * @throws InvalidArgument if that is no key of the sort that is made here
 */
export function certifyNode(
  { dnsName, publicKey }: { readonly dnsName: string; readonly publicKey: Buffer },
  authority: KeyPair & { readonly commonName: string },
  validity: Validity,
): string {
  return signed({ dnsName, publicKey: onlyKey(publicKey), uses: [serverAuth, clientAuth] }, authority, validity);
}

/** Encoded again: bytes that a stranger has put behind the key would be extensions of the certificate. */
function onlyKey(der: Buffer): Buffer {
  try {
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
    if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key.export({ type: 'spki', format: 'der' });
  } catch {
    // It is none.
  }
  throw new InvalidArgument('this is no public key of the curve P-256.');
}

function signed(
  { dnsName, publicKey, uses }: { readonly dnsName: string; readonly publicKey: Buffer; readonly uses: string[] },
  authority: KeyPair & { readonly commonName: string },
  validity: Validity,
): string {
  return certificateOf({
    subject: dnsName,
    publicKey,
    issuer: authority.commonName,
    issuerKey: authority.key,
    issuerPublicKey: publicPart(authority.key),
    validity,
    usage: [
      extension(extensions.basicConstraints, sequence(), true),
      // digitalSignature
      extension(extensions.keyUsage, bits(Buffer.from([0x80]), 7), true),
      extension(extensions.extendedKeyUsage, sequence(...uses.map(identifier))),
      extension(extensions.subjectAltName, sequence(context(2, Buffer.from(dnsName), false))),
    ],
  });
}

interface CertificatePlan {
  readonly subject: string;
  readonly publicKey: Buffer;
  readonly issuer: string;
  readonly issuerKey: string;
  readonly issuerPublicKey: Buffer;
  readonly validity: Validity;
  readonly usage: readonly Buffer[];
}

function certificateOf(plan: CertificatePlan): string {
  const { from, days } = plan.validity;
  const body = sequence(
    context(0, integer(Buffer.from([2]))),
    // 20 bytes at most, and positive.
    integer(Buffer.concat([Buffer.from([1]), randomBytes(18)])),
    ecdsaWithSha256,
    nameOf(plan.issuer),
    sequence(time(from), time(new Date(from.getTime() + days * dayMs))),
    nameOf(plan.subject),
    plan.publicKey,
    context(
      3,
      sequence(
        ...plan.usage,
        extension(extensions.subjectKeyIdentifier, octets(fingerprint(plan.publicKey))),
        extension(extensions.authorityKeyIdentifier, sequence(context(0, fingerprint(plan.issuerPublicKey), false))),
      ),
    ),
  );
  const signature = sign('sha256', body, createPrivateKey(plan.issuerKey));
  return pem('CERTIFICATE', sequence(body, ecdsaWithSha256, bits(signature)));
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(identifier(id), ...(isCritical ? [boolean(true)] : []), octets(value));
}

function nameOf(commonName: string): Buffer {
  return sequence(set(sequence(identifier(names.commonName), text(commonName))));
}

/** Any short name of a key is allowed (RFC 5280, 4.2.1.2). */
function fingerprint(publicKey: Buffer): Buffer {
  return createHash('sha256').update(publicKey).digest().subarray(0, 20);
}

/** A key of the sort that is certified here; its public part as DER. */
export function makeKey(): { key: string; publicKey: Buffer } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
  };
}

function publicPart(key: string): Buffer {
  return createPublicKey(createPrivateKey(key)).export({ type: 'spki', format: 'der' });
}

function pem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}
