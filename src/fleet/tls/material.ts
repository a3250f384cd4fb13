import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto';
import { type KeyPair, makeAuthority, makeServer } from './certificate.ts';

/** The only name by which a node recognises a controller: it dials addresses. */
export const serverName = 'controller.holdfast.internal';

/**
 * The content of the controller's Secret, by the names of its keys. `ca.crt` is the trust of nodes: several
 * certificates while one authority follows another.
 */
export interface Material {
  readonly 'ca.crt': string;
  readonly 'ca.key': string;
  readonly 'tls.crt': string;
  readonly 'tls.key': string;
  /** The key of the tickets of moves between nodes. It outlives authorities: a move that runs goes on after new keys. */
  readonly 'move.key': string;
}

type Certificates = Omit<Material, 'move.key'>;

const moveKeyBytes = 32;

const authorityDays = 3650;
const serverDays = 90;
/** Backdating: a clock that is a little behind must not take a new certificate for one from the future. */
const earlierMs = 60 * 60_000;
const dayMs = 24 * 60 * 60_000;

/** Time before a new authority signs servers, so that nodes have it: the kubelet brings a changed Secret in minutes. */
const trustedBeforeMs = 2 * dayMs;

/**
 * Returns the content that the Secret should have: the present one if it is valid for long enough, else a new one. Two
 * replicas may both find it due: the Secret keeps the content of the first, and the other reads it.
 */
export function materialFor(current: Partial<Material> | undefined, now: Date): Material {
  const moveKey = current?.['move.key'] ?? '';
  const isKey = Buffer.from(moveKey, 'base64').length >= moveKeyBytes;
  return {
    ...certificatesFor(current, now),
    'move.key': isKey ? moveKey : randomBytes(moveKeyBytes).toString('base64'),
  };
}

function certificatesFor(current: Partial<Material> | undefined, now: Date): Certificates {
  const authorities = current?.['ca.crt'] === undefined ? [] : readAll(current['ca.crt']);
  const [newest, ...older] = authorities;
  const key = current?.['ca.key'];
  if (newest === undefined || key === undefined || !isUsable(newest, now) || !fits(newest, key)) return fresh(now);
  if (isDue(newest, now, authorityDays)) return succeeded(newest, key, now);
  const trusted = [newest, ...older.filter((certificate) => isUsable(certificate, now))];
  const server = serverOf(current, now) ?? signedServer({ key, certificate: newest.toString() }, now);
  return { 'ca.crt': trusted.join(''), 'ca.key': key, 'tls.crt': server.certificate, 'tls.key': server.key };
}

/** Answers if the two are equal, and nothing must be written. */
export function isSame(current: Partial<Material> | undefined, wanted: Material): boolean {
  return Object.entries(wanted).every(([name, value]) =>
    Object.entries(current ?? {}).some(([k, v]) => k === name && v === value),
  );
}

function fresh(now: Date): Certificates {
  const authority = newAuthority(now);
  const server = signedServer(authority, now);
  return {
    'ca.crt': authority.certificate,
    'ca.key': authority.key,
    'tls.crt': server.certificate,
    'tls.key': server.key,
  };
}

/**
 * A new authority is trusted beside the old one, which has signed the server's certificate for some time to come: nodes
 * know the new one long before they meet it.
 */
function succeeded(old: X509Certificate, oldKey: string, now: Date): Certificates {
  const authority = newAuthority(now);
  const server = signedServer({ key: oldKey, certificate: old.toString() }, now);
  return {
    'ca.crt': `${authority.certificate}${old.toString()}`,
    'ca.key': authority.key,
    'tls.crt': server.certificate,
    'tls.key': server.key,
  };
}

/** The server's certificate, if it is valid for long enough and one of the trusted authorities has signed it. */
function serverOf(current: Partial<Material> | undefined, now: Date): KeyPair | undefined {
  const [certificate, key] = [current?.['tls.crt'], current?.['tls.key']];
  if (certificate === undefined || key === undefined) return undefined;
  const [server] = readAll(certificate);
  const authorities = readAll(current?.['ca.crt'] ?? '');
  const isTrusted = server !== undefined && authorities.some((authority) => server.verify(authority.publicKey));
  if (!isTrusted || !isUsable(server, now) || !fits(server, key)) return undefined;
  const [newest] = authorities;
  const mayBeLast = newest !== undefined && now.getTime() - Date.parse(newest.validFrom) < trustedBeforeMs + earlierMs;
  // While the newest authority is too new to be used, a certificate of the old one is kept to its end.
  return isDue(server, now, serverDays) && !mayBeLast ? undefined : { certificate, key };
}

function newAuthority(now: Date): KeyPair {
  const name = `Holdfast ${now.toISOString()}`;
  return makeAuthority(name, { from: new Date(now.getTime() - earlierMs), days: authorityDays });
}

function signedServer(authority: KeyPair, now: Date): KeyPair {
  const commonName = new X509Certificate(authority.certificate).subject.replace(/^CN=/, '');
  const from = new Date(now.getTime() - earlierMs);
  return makeServer(serverName, { ...authority, commonName }, { from, days: serverDays });
}

function readAll(text: string): X509Certificate[] {
  const parts = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];
  try {
    return parts.map((part) => new X509Certificate(part));
  } catch {
    // The text is no certificate: a new one replaces it.
    return [];
  }
}

function isUsable(certificate: X509Certificate, now: Date): boolean {
  return Date.parse(certificate.validFrom) <= now.getTime() && now.getTime() < Date.parse(certificate.validTo);
}

/** Answers if two thirds of its life are over. */
function isDue(certificate: X509Certificate, now: Date, days: number): boolean {
  return Date.parse(certificate.validTo) - now.getTime() < (days * dayMs) / 3;
}

function fits(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}
