import { InvalidArgument } from '../volume/errors.ts';
import type { Field, MessageType } from './message-type.ts';

/*
 * Limits for the sizes of fields (docs/internals/requirements.md, L01 to L11). The tables below are by the name of a field; the
 * descriptor says which messages have such fields. All sizes are bytes of UTF-8.
 */

/** The limit of a string that is not in the table below (L02). */
const stringBytes = 128;

const pathBytes = 4095; // PATH_MAX counts the final NUL (limits.h)

/** Strings with other limits (L05, L06). */
const stringBytesByField: ReadonlyMap<string, number> = new Map([
  ['node_id', 256],
  ['staging_target_path', pathBytes],
  ['target_path', pathBytes],
  ['volume_path', pathBytes],
]);

/** Keys and values of one map together (L03). */
const mapBytes = 4096;

/** Lists of strings with a limit for the sum (L04). */
const listBytesByField: ReadonlyMap<string, number> = new Map([['mount_flags', 4096]]);

/** Characters that a string must not contain: L08 for names; in a path the kernel would stop at a NUL. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const forbiddenInName = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
const forbiddenByField: ReadonlyMap<string, RegExp> = new Map([
  ['name', forbiddenInName],
  ['staging_target_path', /\0/],
  ['target_path', /\0/],
  ['volume_path', /\0/],
]);

/** Numbers that are never negative (L11). `starting_offset` has another code and is not here (SM03). */
const notNegative: ReadonlySet<string> = new Set([
  'required_bytes',
  'limit_bytes',
  'max_entries',
  'max_results',
  'capacity_bytes',
  'size_bytes',
  'available_capacity',
  'maximum_volume_size',
  'minimum_volume_size',
  'max_volumes_per_node',
  'available',
  'total',
  'used',
]);

type Check = (value: unknown) => void;

const checks = new Map<MessageType, Check>();

/**
 * Checks every field of a decoded message of CSI, nested ones too. The checks are derived once for each type. The
 * kubelet's own messages have no limits.
 * @throws InvalidArgument that names the field, never its value: it may be a secret
 */
export function checkLimits(type: MessageType, message: object): void {
  let check = checks.get(type);
  if (check === undefined) {
    const isLimited = type.fullName.startsWith('.csi.v1.');
    check = (isLimited ? messageCheck(type, '') : undefined) ?? (() => undefined);
    checks.set(type, check);
  }
  check(message);
}

function messageCheck(type: MessageType, prefix: string): Check | undefined {
  const fields: (readonly [name: string, check: Check])[] = [];
  for (const field of type.fields) {
    const check = fieldCheck(field, `${prefix}${field.name}`);
    if (check !== undefined) fields.push([field.name, check]);
  }
  if (fields.length === 0) return undefined;
  return (message) => {
    if (!isRecord(message)) return;
    for (const [name, check] of fields) check(message[name]);
  };
}

function fieldCheck(field: Field, path: string): Check | undefined {
  if (field.isMap) return mapCheck(path);
  const listBytes = listBytesByField.get(field.name);
  if (listBytes !== undefined) return listCheck(listBytes, path);
  const check = valueCheck(field, path);
  if (check === undefined || !field.isRepeated) return check;
  return (list) => {
    if (Array.isArray(list)) for (const value of list) check(value);
  };
}

function valueCheck(field: Field, path: string): Check | undefined {
  if (field.type === 'string') return stringCheck(field.name, path);
  if (notNegative.has(field.name)) return notNegativeCheck(path);
  return field.message === undefined ? undefined : messageCheck(field.message, `${path}.`);
}

function stringCheck(name: string, path: string): Check {
  const limit = stringBytesByField.get(name) ?? stringBytes;
  const forbidden = forbiddenByField.get(name);
  return (text) => {
    if (typeof text !== 'string') return;
    if (isLonger(text, limit)) throw new InvalidArgument(`${path} is longer than ${limit} bytes.`);
    if (forbidden?.test(text)) throw new InvalidArgument(`${path} contains a character that is not allowed.`);
  };
}

/** Avoids counting for most strings: one UTF-16 unit becomes one to three bytes. */
function isLonger(text: string, limit: number): boolean {
  if (text.length * 3 <= limit) return false;
  return text.length > limit || Buffer.byteLength(text) > limit;
}

function mapCheck(path: string): Check {
  return (map) => {
    if (!isRecord(map)) return;
    let bytes = 0;
    for (const [key, value] of Object.entries(map)) {
      bytes += Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
    }
    if (bytes > mapBytes) throw new InvalidArgument(`${path} has ${bytes} bytes, and ${mapBytes} are allowed.`);
  };
}

function listCheck(limit: number, path: string): Check {
  return (list) => {
    if (!Array.isArray(list)) return;
    const bytes = list.reduce((sum: number, text) => sum + Buffer.byteLength(String(text)), 0);
    if (bytes > limit) throw new InvalidArgument(`${path} has ${bytes} bytes, and ${limit} are allowed.`);
  };
}

function notNegativeCheck(path: string): Check {
  return (value) => {
    const number = isRecord(value) ? value['value'] : value; // google.protobuf.Int64Value
    if ((typeof number === 'bigint' || typeof number === 'number') && number < 0) {
      throw new InvalidArgument(`${path} is negative.`);
    }
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
