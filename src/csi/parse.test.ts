import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { accessModes } from '../volume/capability.ts';
import { FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import { contract, decode, encode } from './contract.ts';
import type * as wire from './generated/types.ts';
import type { Draft } from './handler.ts';
import { parseCapability, parseCapacityRange, parseTopologyRequirement } from './parse.ts';

/** The message as a handler gets it: encoded and decoded. */
function received<T>(typeName: string, message: Draft<T>): T {
  const type = contract.lookupType(`csi.v1.${typeName}`);
  return decode<T>(type, encode(type, Object(message)));
}

function capability(draft: Draft<wire.VolumeCapability>) {
  const message = received<wire.VolumeCapability>('VolumeCapability', draft);
  return parseCapability(message, (words) => new FailedPrecondition(words));
}

const writer = { access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

describe('parseCapability', () => {
  test('A06 a filesystem, or the choice of one, and flags', () => {
    assert.deepEqual(capability({ ...writer, mount: { fs_type: 'xfs', mount_flags: ['noatime'] } }), {
      access: { type: 'mount', fsType: 'xfs', mountFlags: ['noatime'] },
      mode: 'SINGLE_NODE_WRITER',
    });
    const { access } = capability({ ...writer, mount: {} });
    assert.deepEqual(access, { type: 'mount', fsType: undefined, mountFlags: [] });
  });

  test('L14 an empty block{} or mount{} is an access type, neither is none', () => {
    assert.deepEqual(capability({ ...writer, block: {} }).access, { type: 'block' });
    assert.throws(() => capability({ ...writer }), InvalidArgument);
  });

  test('L13 CV03 access mode missing, UNKNOWN or of an unknown number is INVALID_ARGUMENT', () => {
    for (const access_mode of [
      undefined,
      {},
      { mode: 'UNKNOWN' },
      { mode: 8 },
      { mode: -1 },
      { mode: 2 ** 31 - 1 },
    ] as const) {
      assert.throws(() => capability({ block: {}, access_mode }), InvalidArgument);
    }
  });

  test('A01 A05 all modes of CSI are parsed: which of them a volume can have is for its pool to say', () => {
    for (const mode of accessModes) {
      assert.equal(capability({ block: {}, access_mode: { mode } }).mode, mode);
    }
  });

  test('A04 G10 an unknown filesystem and a mount group have the error of the RPC', () => {
    for (const mount of [{ fs_type: 'ntfs' }, { fs_type: 'EXT4' }, { volume_mount_group: '1000' }]) {
      assert.throws(() => capability({ ...writer, mount }), FailedPrecondition);
    }
  });
});

describe('parseCapacityRange', () => {
  const range = (message: Draft<wire.CapacityRange>) =>
    parseCapacityRange(received<wire.CapacityRange>('CapacityRange', message));

  test('CV32 no range is no wish', () => {
    assert.equal(parseCapacityRange(null), undefined);
  });

  test('L12 either or both, exactly', () => {
    assert.deepEqual(range({ required_bytes: 2n ** 53n + 1n }), {
      requiredBytes: 2n ** 53n + 1n,
      limitBytes: undefined,
    });
    assert.deepEqual(range({ limit_bytes: 5n }), { requiredBytes: undefined, limitBytes: 5n });
    assert.deepEqual(range({ required_bytes: 5n, limit_bytes: 5n }), { requiredBytes: 5n, limitBytes: 5n });
  });

  test('CV04 both zero, or required over limit', () => {
    assert.throws(() => range({}), InvalidArgument);
    assert.throws(() => range({ required_bytes: 6n, limit_bytes: 5n }), InvalidArgument);
  });

  test('L11 negative', () => {
    assert.throws(() => range({ required_bytes: -1n }), InvalidArgument);
    assert.throws(() => range({ required_bytes: 1n, limit_bytes: -1n }), InvalidArgument);
  });
});

describe('parseTopologyRequirement', () => {
  const segments = (...nodes: string[]) => nodes.map((node) => ({ segments: { 'topology.holdfast.dev/node': node } }));
  const requirement = (message: Draft<wire.TopologyRequirement>) =>
    parseTopologyRequirement(received<wire.TopologyRequirement>('TopologyRequirement', message));

  test('Y04 none', () => {
    assert.equal(parseTopologyRequirement(null), undefined);
  });

  test('Y03 the order of the lists is kept', () => {
    const parsed = requirement({ requisite: segments('a', 'b', 'c'), preferred: segments('c', 'a') });
    assert.deepEqual(parsed?.preferred.map(Object.values), [['c'], ['a']]);
    assert.equal(parsed?.requisite.length, 3);
    assert.equal(requirement({ preferred: segments('a') })?.requisite.length, 0);
  });

  test('Y02 both empty, or preferred not among the requisite', () => {
    assert.throws(() => requirement({}), InvalidArgument);
    assert.throws(() => requirement({ requisite: segments('a'), preferred: segments('b') }), InvalidArgument);
  });

  test('Y01 keys are the same whatever their case and order, values are not', () => {
    const within = (wished: Record<string, string>) =>
      requirement({ requisite: [{ segments: { 'A/x': '1', 'a/y': 'v' } }], preferred: [{ segments: wished }] });
    assert.equal(within({ 'a/Y': 'v', 'a/X': '1' })?.preferred.length, 1);
    assert.throws(() => within({ 'a/x': '1', 'a/y': 'V' }), InvalidArgument);
    assert.throws(() => within({ 'a/x': '1' }), InvalidArgument);
  });
});
