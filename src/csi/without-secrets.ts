import { decode, encode } from './contract.ts';
import type { MessageType } from './message-type.ts';

/**
 * Returns a request without fields that the contract marks as `csi_secret`. Unknown fields are removed too, as they may
 * be secret.
 */
export function withoutSecrets(type: MessageType, bytes: Buffer): Buffer {
  const secret = new Set(type.fields.filter(({ isSecret }) => isSecret).map(({ name }) => name));
  if (secret.size === 0) return bytes;
  const message = decode<object>(type, bytes);
  return encode(type, Object.fromEntries(Object.entries(message).filter(([name]) => !secret.has(name))));
}
