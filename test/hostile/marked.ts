import protobuf from 'protobufjs/light.js';
import { decode, encode } from '../../src/csi/contract.ts';
import { reflected } from '../support/reflection.ts';
import type { RawRequest } from './raw-client.ts';

/** The same request with the marker in everything that may be a secret (X01, X02): in each secret, and in mount flags. */
export function marked({ bytes, method }: RawRequest, marker: string, flags: readonly string[]): RawRequest {
  const type = reflected(method.requestType);
  let message: object;
  try {
    message = decode<object>(type, bytes);
  } catch {
    // It cannot be read, so there is nothing to be found in it either.
    return { method, bytes };
  }
  return { method, bytes: encode(type, mark(type, message, marker, flags)) };
}

function mark(type: protobuf.Type, message: object, marker: string, flags: readonly string[]): object {
  const values: Readonly<Record<string, unknown>> = { ...message };
  const copy: Record<string, unknown> = {};
  for (const field of type.fieldsArray) {
    const value = values[field.name];
    const nested = field.resolve().resolvedType;
    if (field.options?.['(csi_secret)'] === true) copy[field.name] = { user: marker, 'a.key_that-is-allowed': marker };
    else if (field.name === 'mount_flags') copy[field.name] = flags;
    else if (field.map || !(nested instanceof protobuf.Type)) copy[field.name] = value;
    else if (Array.isArray(value)) copy[field.name] = value.map((one) => mark(nested, Object(one), marker, flags));
    else if (typeof value === 'object' && value !== null) copy[field.name] = mark(nested, value, marker, flags);
  }
  return copy;
}
