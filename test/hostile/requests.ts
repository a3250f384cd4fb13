import fc, { type Arbitrary } from 'fast-check';
import protobuf from 'protobufjs/light.js';
import { decode, encode, type Method } from '../../src/csi/contract.ts';
import { reflected } from '../support/reflection.ts';
import { hostileInt32, hostileInt64, hostileMap, hostileString, spoiled } from './strings.ts';

/** What is there to be named in a request, so that some of them get far. */
export interface Lexicon {
  readonly volumeIds: readonly string[];
  readonly snapshotIds: readonly string[];
  readonly groupIds: readonly string[];
  readonly names: readonly string[];
  readonly nodeIds: readonly string[];
  /** Where volumes may be staged and published, and where they are. */
  readonly paths: readonly string[];
  /** Where nothing must ever be mounted, made or removed. */
  readonly forbiddenPaths: readonly string[];
}

const mebibyte = 1n << 20n;
const ephemeral = { 'csi.storage.k8s.io/ephemeral': 'true' };

const mapsByField: Readonly<Record<string, readonly Readonly<Record<string, string>>[]>> = {
  parameters: [{}, {}, { provisioning: 'thin' }, { pool: 'file' }, { mkfsOptions: '-m 1' }, { undelete: '0' }],
  mutable_parameters: [{}, {}, { provisioning: 'thin' }, { provisioning: 'thick' }, { undelete: '0' }],
  volume_context: [{}, {}, ephemeral, { ...ephemeral, size: '33Mi' }, { ...ephemeral, gitRepository: '/nowhere' }],
  secrets: [{}, { user: 'u', password: 'p' }],
  segments: [{ 'topology.holdfast.dev/node': 'node-1' }, {}, { 'topology.holdfast.dev/node': 'node-2' }],
};
const mountFlags: readonly (readonly string[])[] = [[], [], ['noatime'], ['ro'], ['nosuid', 'nodev'], ['bogus']];
const sizesBytes: readonly bigint[] = [0n, 0n, 32n * mebibyte, 33n * mebibyte, 40n * mebibyte];

/** What is sent, and how a report shows it. */
export class HostileRequest {
  readonly method: Method;
  readonly bytes: Buffer;

  constructor(method: Method, bytes: Buffer) {
    this.method = method;
    this.bytes = bytes;
  }

  [fc.toStringMethod](): string {
    const { name, requestType } = this.method;
    try {
      const shown = (_key: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value);
      return `${name} ${JSON.stringify(decode<object>(requestType, this.bytes), shown).slice(0, 2000)}`;
    } catch {
      return `${name} ${this.bytes.toString('hex').slice(0, 2000)}`;
    }
  }
}

/** Requests for a method: some that are right, many with one thing wrong, some with everything, some garbled. */
export function requestsFor(method: Method, lexicon: Lexicon): Arbitrary<HostileRequest> {
  return bytesFor(reflected(method.requestType), lexicon).map((bytes) => new HostileRequest(method, bytes));
}

function bytesFor(type: protobuf.Type, lexicon: Lexicon): Arbitrary<Buffer> {
  const right = plausible(type, lexicon);
  const wrong = hostile(type, lexicon);
  const names = type.fieldsArray.map(({ name }) => name);
  if (names.length === 0) return fc.oneof(fc.constant(Buffer.alloc(0)), garbage);
  const spoilt = fc.tuple(right, wrong, fc.constantFrom(...names)).map(([base, other, name]) => {
    return { ...base, [name]: other[name] };
  });
  const bytes = fc
    .oneof({ weight: 3, arbitrary: right }, { weight: 6, arbitrary: spoilt }, { weight: 1, arbitrary: wrong })
    .map((message) => encode(type, message));
  return fc.oneof({ weight: 9, arbitrary: bytes }, { weight: 1, arbitrary: fc.tuple(bytes, mutation).map(mutate) });
}

type Message = Readonly<Record<string, unknown>>;

function plausible(type: protobuf.Type, lexicon: Lexicon): Arbitrary<Message> {
  const fields = Object.fromEntries(
    type.fieldsArray.map((field) => [field.name, plausibleField(field.resolve(), lexicon)]),
  );
  // Of a oneof, one.
  const choices = type.oneofsArray.map(({ oneof }) => fc.constantFrom(...oneof));
  return fc.tuple(fc.record(fields), fc.tuple(...choices)).map(([message, chosen]) => {
    const others = type.oneofsArray.flatMap(({ oneof }) => oneof).filter((name) => !chosen.includes(name));
    return Object.fromEntries(Object.entries(message).filter(([name]) => !others.includes(name)));
  });
}

function plausibleField(field: protobuf.Field, lexicon: Lexicon): Arbitrary<unknown> {
  if (field.map) return fc.constantFrom(...(mapsByField[field.name] ?? [{}]));
  if (field.name === 'mount_flags') return fc.constantFrom(...mountFlags);
  const one = plausibleValue(field, lexicon);
  if (field.repeated) return fc.array(one, { minLength: 1, maxLength: 2 });
  return field.resolvedType instanceof protobuf.Type && !field.partOf ? fc.option(one, { freq: 5 }) : one;
}

function plausibleValue(field: protobuf.Field, lexicon: Lexicon): Arbitrary<unknown> {
  const { resolvedType } = field;
  if (resolvedType instanceof protobuf.Type) return plausible(resolvedType, lexicon);
  if (resolvedType instanceof protobuf.Enum) {
    return fc.oneof(fc.constantFrom(1, 6, 7), fc.constantFrom(...Object.values(resolvedType.values)));
  }
  if (field.type === 'string') return fc.constantFrom(...wordsFor(field.name, lexicon));
  if (field.type === 'bool') return fc.boolean();
  if (field.type === 'int64') return fc.constantFrom(...sizesBytes);
  return fc.constantFrom(0, 1, 100);
}

function wordsFor(name: string, lexicon: Lexicon): readonly string[] {
  const { groupIds, names, nodeIds, paths, snapshotIds, volumeIds } = lexicon;
  if (/path$/.test(name)) return paths;
  if (/group_snapshot_id$/.test(name)) return groupIds;
  if (/snapshot_ids?$/.test(name)) return snapshotIds;
  if (/volume_ids?$/.test(name)) return volumeIds;
  if (name === 'node_id') return nodeIds;
  if (name === 'name') return names;
  if (name === 'fs_type') return ['', '', 'ext4', 'xfs', 'btrfs'];
  return [''];
}

function hostile(type: protobuf.Type, lexicon: Lexicon): Arbitrary<Message> {
  return fc.record(
    Object.fromEntries(type.fieldsArray.map((field) => [field.name, hostileField(field.resolve(), lexicon)])),
  );
}

function hostileField(field: protobuf.Field, lexicon: Lexicon): Arbitrary<unknown> {
  if (field.map) return hostileMap;
  const one = hostileValue(field, lexicon);
  if (!field.repeated) return field.resolvedType instanceof protobuf.Type ? fc.option(one, { freq: 3 }) : one;
  const many = fc.tuple(one, fc.constantFrom(100, 3000)).map(([value, length]) => Array(length).fill(value));
  return fc.oneof({ weight: 9, arbitrary: fc.array(one, { maxLength: 4 }) }, { weight: 1, arbitrary: many });
}

function hostileValue(field: protobuf.Field, lexicon: Lexicon): Arbitrary<unknown> {
  const { resolvedType } = field;
  if (resolvedType instanceof protobuf.Type) {
    return fc.oneof(fc.constant({}), plausible(resolvedType, lexicon), hostile(resolvedType, lexicon));
  }
  if (resolvedType instanceof protobuf.Enum) {
    return fc.oneof(fc.constantFrom(...Object.values(resolvedType.values)), hostileInt32);
  }
  if (field.type === 'bool') return fc.boolean();
  if (field.type === 'int64') return hostileInt64;
  if (field.type !== 'string') return hostileInt32;
  const words = wordsFor(field.name, lexicon);
  const forbidden = /path$/.test(field.name) ? [fc.constantFrom(...lexicon.forbiddenPaths)] : [];
  return fc.oneof(...forbidden, hostileString, spoiled(fc.constantFrom(...words)));
}

const garbage = fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes));

const mutation = fc.record({ at: fc.nat(), byte: fc.nat(255), how: fc.nat(3), more: garbage });

function mutate([bytes, { at, byte, how, more }]: [Buffer, { at: number; byte: number; how: number; more: Buffer }]) {
  const index = bytes.length === 0 ? 0 : at % bytes.length;
  const before = bytes.subarray(0, index);
  const variations = [
    before,
    Buffer.concat([before, Buffer.of(byte), bytes.subarray(index + 1)]),
    Buffer.concat([before, more, bytes.subarray(index)]),
    Buffer.concat([bytes, more]),
  ];
  return variations[how] ?? bytes;
}
