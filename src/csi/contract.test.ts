import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { contract, decode, encode, methodsOf } from './contract.ts';
import type * as wire from './generated/types.ts';

const rangeType = contract.lookupType('csi.v1.CapacityRange');
const capabilityType = contract.lookupType('csi.v1.VolumeCapability');
const withMode = (mode: string | number | undefined) => encode(capabilityType, { access_mode: { mode } });
const modeOf = (bytes: Buffer) => decode<wire.VolumeCapability>(capabilityType, bytes).access_mode;

const minimum = -(2n ** 63n);
const maximum = 2n ** 63n - 1n;

/** A varint as protobuf defines it, made without the code under test. */
function varint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return [...bytes, Number(rest)];
}

describe('L12 int64', () => {
  test('every value goes to the wire and back as it was', () => {
    fc.assert(
      fc.property(fc.bigInt(minimum, maximum), fc.bigInt(minimum, maximum), (required_bytes, limit_bytes) => {
        const bytes = encode(rangeType, { required_bytes, limit_bytes });
        assert.deepEqual(decode<wire.CapacityRange>(rangeType, bytes), { required_bytes, limit_bytes });
      }),
    );
  });

  for (const value of [
    minimum,
    minimum + 1n,
    -(2n ** 53n) - 1n,
    -1n,
    1n,
    2n ** 31n,
    2n ** 32n,
    2n ** 53n + 1n,
    maximum,
  ]) {
    test(`${value} has the bytes that protobuf says`, () => {
      const bytes = Buffer.from([0x08, ...varint(value)]);
      assert.deepEqual(encode(rangeType, { required_bytes: value }), bytes);
      assert.equal(decode<wire.CapacityRange>(rangeType, bytes).required_bytes, value);
    });
  }

  test('in a wrapper and in a Timestamp too', () => {
    const capacity = contract.lookupType('csi.v1.GetCapacityResponse');
    const sent = {
      available_capacity: maximum,
      maximum_volume_size: { value: 2n ** 53n + 1n },
      minimum_volume_size: null,
    };
    assert.deepEqual(decode(capacity, encode(capacity, sent)), sent);
    const snapshot = contract.lookupType('csi.v1.Snapshot');
    const time = { creation_time: { seconds: 2n ** 60n + 1n, nanos: 999_999_999 } };
    assert.deepEqual(decode<wire.Snapshot>(snapshot, encode(snapshot, time)).creation_time, time.creation_time);
  });
});

describe('messages', () => {
  test('L13 an enum is read by name, and a number without a name as the number', () => {
    for (const [sent, read] of [
      ['SINGLE_NODE_WRITER', 'SINGLE_NODE_WRITER'],
      [1, 'SINGLE_NODE_WRITER'],
      [0, 'UNKNOWN'],
      [8, 8],
      [-7, -7],
      [2 ** 31 - 1, 2 ** 31 - 1],
    ]) {
      assert.deepEqual(modeOf(withMode(sent)), { mode: read });
    }
  });

  test('what was not sent is there with its default', () => {
    const { requestType } = methodsOf('csi.v1.Node').find(({ name }) => name === 'NodePublishVolume') ?? assert.fail();
    const empty: wire.NodePublishVolumeRequest = {
      volume_id: '',
      publish_context: {},
      staging_target_path: '',
      target_path: '',
      volume_capability: null,
      readonly: false,
      secrets: {},
      volume_context: {},
    };
    assert.deepEqual(decode(requestType, Buffer.alloc(0)), empty);
  });

  test('L14 the member of a oneof that is set is named; of two on the wire the last one counts', () => {
    const type = contract.lookupType('csi.v1.VolumeCapability');
    const block = [0x0a, 0x00];
    const mount = [0x12, 0x00];
    const read = (...bytes: number[]) => decode<wire.VolumeCapability>(type, Buffer.from(bytes));
    assert.equal(read().access_type, undefined);
    assert.equal(read(...block).access_type, 'block');
    const last = read(...block, ...mount);
    assert.equal(last.access_type, 'mount');
    assert.equal(last.block, undefined);
  });

  test('a map may have keys that objects have of their own', () => {
    const type = contract.lookupType('csi.v1.Topology');
    const segments = JSON.parse('{"__proto__":"a","constructor":"b","toString":"c"}');
    const read = decode<wire.Topology>(type, encode(type, { segments })).segments;
    assert.deepEqual(Object.entries(read).sort(), [
      ['__proto__', 'a'],
      ['constructor', 'b'],
      ['toString', 'c'],
    ]);
    assert.equal(Object.getPrototypeOf(read), Object.prototype);
  });

  test('unknown fields are dropped', () => {
    const bytes = Buffer.concat([withMode(1), Buffer.from([0x9a, 0x3f, 0x01, 0x61])]);
    assert.deepEqual(modeOf(bytes), { mode: 'SINGLE_NODE_WRITER' });
    assert.deepEqual(Object.keys(decode<object>(capabilityType, bytes)), ['access_mode']);
  });

  test('text that is not UTF-8, truncated bytes and other garbage throw', () => {
    const type = contract.lookupType('csi.v1.DeleteVolumeRequest');
    for (const bytes of [[0x0a, 0x02, 0xff, 0xfe], [0x0a, 0x05, 0x61], [0x0a], [0xff, 0xff], [0x07], [0x0c]]) {
      assert.throws(() => decode(type, Buffer.from(bytes)), `${bytes}`);
    }
  });
});
