/*
 * The few forms of ASN.1's distinguished encoding (X.690) that a certificate needs. Nothing is read here: OpenSSL does
 * that.
 */

export function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

export function set(...parts: readonly Buffer[]): Buffer {
  return tagged(0x31, Buffer.concat(parts));
}

/** Not negative: adds a zero byte before a set highest bit. */
export function integer(bytes: Buffer): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const digits = first < 0 ? Buffer.from([0]) : bytes.subarray(first);
  return tagged(0x02, (digits[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), digits]) : digits);
}

export function boolean(value: boolean): Buffer {
  return tagged(0x01, Buffer.from([value ? 0xff : 0]));
}

export function octets(bytes: Buffer): Buffer {
  return tagged(0x04, bytes);
}

/** `unused`: number of bits at the end that do not count. */
export function bits(bytes: Buffer, unused = 0): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([unused]), bytes]));
}

export function text(value: string): Buffer {
  return tagged(0x0c, Buffer.from(value));
}

/** `1.2.840.10045.4.3.2` */
export function identifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** RFC 5280, 4.1.2.5: two digits for the year until 2049. */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '');
  return date.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}

/** A context-specific tag around a whole element, or, if it is primitive, instead of its tag. */
export function context(number: number, content: Buffer, isConstructed = true): Buffer {
  return tagged((isConstructed ? 0xa0 : 0x80) | number, content);
}

function tagged(tag: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 | bytes.length, ...bytes];
}

function base128(value: number): number[] {
  const digits = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) digits.unshift((rest % 128) | 0x80);
  return digits;
}
