import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type * as wire from '../csi/generated/types.ts';
import { InvalidArgument, NotFound, OutOfRange } from '../volume/errors.ts';
import { fingerprint } from '../volume/flow/object-queue.ts';
import { parseDemand, parseVolumeRequest } from './request.ts';

const writer: wire.VolumeCapability['access_mode'] = { mode: 'SINGLE_NODE_WRITER' };
const block: wire.VolumeCapability = { block: {}, access_mode: writer };

function mount(fs_type = '', mode: wire.VolumeCapabilityAccessModeMode = 'SINGLE_NODE_WRITER'): wire.VolumeCapability {
  return { mount: { fs_type, mount_flags: ['noatime'], volume_mount_group: '' }, access_mode: { mode } };
}

function request(changes: Partial<wire.CreateVolumeRequest> = {}): wire.CreateVolumeRequest {
  return {
    name: 'pvc-1',
    capacity_range: null,
    volume_capabilities: [mount()],
    parameters: {},
    secrets: {},
    volume_content_source: null,
    accessibility_requirements: null,
    mutable_parameters: {},
    ...changes,
  };
}

const demand = (...capabilities: wire.VolumeCapability[]) => parseDemand(capabilities, (why) => new OutOfRange(why));

describe('what capabilities ask of one volume', () => {
  test('A03: modes are collected in one order, each once', () => {
    const modes = (...list: wire.VolumeCapabilityAccessModeMode[]) =>
      demand(...list.map((mode) => mount('', mode))).modes;
    const both = ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY'];
    assert.deepEqual(modes('SINGLE_NODE_READER_ONLY', 'SINGLE_NODE_WRITER', 'SINGLE_NODE_WRITER'), both);
    assert.deepEqual(modes('SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY'), both);
  });

  test('A06: an unnamed filesystem goes with a named one', () => {
    const named = { type: 'mount', fsType: 'xfs', mountFlags: [] };
    assert.deepEqual(demand(mount(), mount('xfs')).access, named);
    assert.deepEqual(demand(mount('xfs'), mount()).access, named);
    assert.deepEqual(demand(mount()).access, { ...named, fsType: undefined });
  });

  test('A03: two filesystems, or block and mount, cannot be had in one volume', () => {
    assert.throws(() => demand(mount('xfs'), mount('ext4')), OutOfRange);
    assert.throws(() => demand(mount('xfs'), block), OutOfRange);
    assert.throws(() => demand(block, mount()), OutOfRange);
    assert.deepEqual(demand(block, block).access, { type: 'block' });
  });

  test('L13: what is wrong in itself stays INVALID_ARGUMENT', () => {
    assert.throws(() => demand(mount('', 'UNKNOWN')), InvalidArgument);
    assert.throws(() => demand(mount('', 99)), InvalidArgument);
  });

  test('X02: mount flags are not kept', () => {
    assert.ok(!fingerprint(demand(mount())).includes('noatime'));
  });
});

describe('CreateVolumeRequest', () => {
  const refused: Record<string, Partial<wire.CreateVolumeRequest>> = {
    'CV13: mutable_parameters': { mutable_parameters: { iops: '1' } },
    'CV12: a parameter that is not mutable, among those that are': { mutable_parameters: { pool: 'other' } },
    'CV13: a parameter overridden, but wrong in itself': {
      parameters: { provisioning: 'fat' },
      mutable_parameters: { provisioning: 'thin' },
    },
    'L14: a source without a type': { volume_content_source: {} },
    'L14: a snapshot without an id as source': { volume_content_source: { snapshot: { snapshot_id: '' } } },
    'L14: a volume without an id as source': { volume_content_source: { volume: { volume_id: '' } } },
    'A04: a filesystem that we do not have': { volume_capabilities: [mount('ntfs')] },
    'Y01: a malformed topology key': {
      accessibility_requirements: { requisite: [{ segments: { '/': 'a' } }], preferred: [] },
    },
    'Y02: an empty topology requirement': { accessibility_requirements: { requisite: [], preferred: [] } },
  };
  for (const [what, changes] of Object.entries(refused)) {
    test(`${what} is INVALID_ARGUMENT`, () => {
      assert.throws(() => parseVolumeRequest(request(changes)), InvalidArgument);
    });
  }

  test('CV22 CV24: a source with an id that cannot be one is NOT_FOUND', () => {
    for (const volume_content_source of [{ snapshot: { snapshot_id: '../s' } }, { volume: { volume_id: '../v' } }]) {
      assert.throws(() => parseVolumeRequest(request({ volume_content_source })), NotFound);
    }
  });

  test('CV13: mutable parameters go before the others, and both are kept as they came', () => {
    const parsed = parseVolumeRequest(
      request({
        parameters: { undelete: '1h', provisioning: 'thin' },
        mutable_parameters: { provisioning: 'thick' },
      }),
    );
    assert.equal(parsed.parameters.provisioning, 'thick');
    assert.equal(parsed.parameters.undeleteSeconds, 3600);
    assert.deepEqual(parsed.allParameters, { provisioning: 'thin', undelete: '1h' });
    assert.deepEqual(parsed.mutableParameters, { provisioning: 'thick' });
  });

  test('equal requests have one fingerprint, whatever their secrets and the order of their parameters', () => {
    const print = (changes: Partial<wire.CreateVolumeRequest>) => fingerprint(parseVolumeRequest(request(changes)));
    const first = print({ parameters: { pool: 'a', provisioning: 'thin' }, secrets: { key: 'one' } });
    assert.equal(print({ parameters: { provisioning: 'thin', pool: 'a' }, secrets: { key: 'two' } }), first);
    assert.notEqual(print({ parameters: { pool: 'b', provisioning: 'thin' } }), first);
  });

  test('L12: the fingerprint tells sizes above 2^53 apart', () => {
    const print = (bytes: bigint) =>
      fingerprint(parseVolumeRequest(request({ capacity_range: { required_bytes: bytes, limit_bytes: 0n } })));
    assert.notEqual(print(1n << 60n), print((1n << 60n) + 1n));
  });
});
