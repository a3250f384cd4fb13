import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Pages that can be open at a time; the oldest is closed out by a further one. */
const maxSessions = 8;

/**
 * Admits the user that has the printed address to the page of this node. The code works once, and the page gets a token for
 * it that only its memory has.
 */
export class Doorkeeper {
  #code = secret();
  readonly #tokens: Buffer[] = [];

  /** The code of the address that is printed now. */
  get code(): string {
    return this.#code;
  }

  /** Takes the code and gives a token; undefined: it is wrong or has been used. */
  open(code: string): string | undefined {
    if (!isSame(digest(code), digest(this.#code))) return undefined;
    this.#code = secret();
    const token = secret();
    this.#tokens.push(digest(token));
    if (this.#tokens.length > maxSessions) this.#tokens.shift();
    return token;
  }

  knows(token: string): boolean {
    const given = digest(token);
    return this.#tokens.some((known) => isSame(known, given));
  }
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function isSame(one: Buffer, other: Buffer): boolean {
  return timingSafeEqual(one, other);
}

/** Another name for this address would let a page of another site read the answers (DNS rebinding). */
export function isForUs({ headers }: Pick<IncomingMessage, 'headers'>, port: number): boolean {
  // Browsers leave the usual port out.
  const end = port === 80 ? '' : `:${port}`;
  return [`127.0.0.1${end}`, `localhost${end}`].includes(headers.host ?? '');
}
