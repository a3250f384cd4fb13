import type { KeyMaterial } from '../../../command/cryptsetup.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import type { Secrets } from '../../../volume/secrets.ts';

/** The key that a volume opens with, and the one that it had before if it must be changed. */
export interface Keys {
  readonly current: KeyMaterial;
  readonly previous: KeyMaterial | undefined;
}

/** The fields of a Secret that are keys: nothing but this layer gets them. */
export const keyFields = ['key', 'passphrase', 'previousKey', 'previousPassphrase'] as const;

/** 256 random bits: too many to try them all. */
const minKeyBytes = 32;
const maxBytes = 4096;
const minPassphraseCharacters = 8;

/**
 * The keys in the secrets of a call; undefined: none. No message has a secret in it.
 * @throws InvalidArgument
 */
export function parseKeys(secrets: Secrets | undefined): Keys | undefined {
  if (secrets === undefined) return undefined;
  const current = parseOne(secrets, 'key', 'passphrase');
  const previous = parseOne(secrets, 'previousKey', 'previousPassphrase');
  if (current !== undefined) return { current, previous };
  if (previous === undefined) return undefined;
  throw new InvalidArgument(
    'The secret has the previous key and not the one that takes its place: add key or passphrase.',
  );
}

const maxShownFields = 3;
const longestShownField = 30;

/** For secrets that have fields, and none that is known here. */
export function noKeyIn(fields: readonly string[]): InvalidArgument {
  const shown = fields
    .toSorted()
    .slice(0, maxShownFields)
    .map((field) => (field.length > longestShownField ? `${field.slice(0, longestShownField)}…` : field));
  const more = fields.length > maxShownFields ? ', …' : '';
  return new InvalidArgument(
    `The secret has ${shown.join(', ')}${more}, and neither key nor passphrase: name its field so (docs/encryption.md).`,
  );
}

function parseOne(
  secrets: Secrets,
  keyName: (typeof keyFields)[number],
  passphraseName: (typeof keyFields)[number],
): KeyMaterial | undefined {
  const key = secrets.get(keyName);
  const passphrase = secrets.get(passphraseName);
  if (key !== undefined && passphrase !== undefined) {
    throw new InvalidArgument(`The secret has ${keyName} and ${passphraseName}: leave one of them out.`);
  }
  if (key !== undefined) return parseKey(key, `The secret's ${keyName}`);
  return passphrase === undefined ? undefined : parsePassphrase(passphrase, passphraseName);
}

/** A random key as Base64, as `head -c 32 /dev/urandom | base64` writes it. @throws InvalidArgument */
export function parseKey(text: string, what: string): KeyMaterial {
  const compact = text.replace(/\s/g, '');
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(compact) && compact.length % 4 === 0;
  const bytes = isBase64 ? Buffer.from(compact, 'base64') : Buffer.alloc(0);
  if (bytes.length >= minKeyBytes && bytes.length <= maxBytes) return { bytes, isRandom: true };
  throw new InvalidArgument(
    `${what} is not Base64 of ${minKeyBytes} random bytes or more: make one with head -c 32 /dev/urandom | base64.`,
  );
}

function parsePassphrase(text: string, name: string): KeyMaterial {
  if (/[\r\n]$/.test(text)) {
    throw new InvalidArgument(
      `The secret's ${name} ends with a line break, which no prompt would take: make the Secret without it (printf, not echo).`,
    );
  }
  const bytes = Buffer.from(text, 'utf8');
  if (text.length >= minPassphraseCharacters && bytes.length <= maxBytes) return { bytes, isRandom: false };
  throw new InvalidArgument(
    `The secret's ${name} must have ${minPassphraseCharacters} characters at least, and ${maxBytes} bytes at most.`,
  );
}
