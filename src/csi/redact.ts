import type { Field, MessageType } from './message-type.ts';

/** The replacement for a value that must not be logged. */
export const redacted = '[redacted]';

/**
 * Returns a copy of a decoded message that may be logged: without fields that the contract marks as `csi_secret` (X01),
 * without mount flags (X02), and without secrets that a pod's attributes may contain against the rules. Fields with
 * their default are left out, and an int64 is written as text.
 */
export function redact(type: MessageType, message: object): Record<string, unknown> {
  const values: Readonly<Record<string, unknown>> = { ...message };
  const copy: Record<string, unknown> = {};
  for (const field of type.fields) {
    const value = values[field.name];
    if (isDefault(field, value)) continue;
    copy[field.name] = isSensitive(field) ? redacted : loggable(field, value);
  }
  return copy;
}

function isSensitive(field: Field): boolean {
  return field.isSecret || field.name === 'mount_flags';
}

/** Matches tokens of the pod, which the kubelet may add; and URLs with a user, a password or a query in them. */
function isSensitiveEntry(key: string, value: unknown): boolean {
  return key.endsWith('serviceAccount.tokens') || (typeof value === 'string' && /:.*@|:.*[?#]/s.test(value));
}

function loggableMap(map: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(map).map(([key, value]) => [key, isSensitiveEntry(key, value) ? redacted : value]),
  );
}

function loggable(field: Field, value: unknown): unknown {
  if (field.isMap && typeof value === 'object' && value !== null) return loggableMap(value);
  if (Array.isArray(value)) return value.map((element) => loggable(field, element));
  if (typeof value === 'bigint') return value.toString();
  const type = field.message;
  return type !== undefined && typeof value === 'object' && value !== null ? redact(type, value) : value;
}

function isDefault(field: Field, value: unknown): boolean {
  if (value === null || value === undefined || value === '' || value === false) return true;
  if (value === 0 || value === 0n || value === 'UNKNOWN') return true;
  if (Array.isArray(value)) return value.length === 0;
  return field.isMap && Object.keys(value).length === 0;
}
