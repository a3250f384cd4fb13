import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../volume/errors.ts';
import { contract, decode, encode, methodsOf } from './contract.ts';
import { checkRequired } from './required.ts';

const capability = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

/** All required fields of each RPC; the order is that of the contract for several missing ones. */
const complete: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  CreateVolume: { name: 'a', volume_capabilities: [capability] },
  DeleteVolume: { volume_id: 'a' },
  ControllerPublishVolume: { volume_id: 'a', node_id: 'b', volume_capability: capability },
  ControllerUnpublishVolume: { volume_id: 'a' },
  ValidateVolumeCapabilities: { volume_id: 'a', volume_capabilities: [capability] },
  ControllerGetVolume: { volume_id: 'a' },
  ControllerModifyVolume: { volume_id: 'a', mutable_parameters: { a: 'b' } },
  ControllerExpandVolume: { volume_id: 'a', capacity_range: { required_bytes: 1n } },
  CreateSnapshot: { source_volume_id: 'a', name: 'b' },
  DeleteSnapshot: { snapshot_id: 'a' },
  GetSnapshot: { snapshot_id: 'a' },
  CreateVolumeGroupSnapshot: { name: 'a', source_volume_ids: ['b'] },
  DeleteVolumeGroupSnapshot: { group_snapshot_id: 'a' },
  GetVolumeGroupSnapshot: { group_snapshot_id: 'a' },
  GetMetadataAllocated: { snapshot_id: 'a' },
  GetMetadataDelta: { base_snapshot_id: 'a', target_snapshot_id: 'b' },
  NodeStageVolume: { volume_id: 'a', staging_target_path: '/a', volume_capability: capability },
  NodeUnstageVolume: { volume_id: 'a', staging_target_path: '/a' },
  NodePublishVolume: { volume_id: 'a', target_path: '/a', volume_capability: capability },
  NodeUnpublishVolume: { volume_id: 'a', target_path: '/a' },
  NodeGetVolumeStats: { volume_id: 'a', volume_path: 'relative' },
  NodeExpandVolume: { volume_id: 'a', volume_path: 'relative' },
  ListVolumes: {},
  ListSnapshots: {},
  GetCapacity: {},
  ControllerGetCapabilities: {},
  GroupControllerGetCapabilities: {},
  NodeGetCapabilities: {},
  NodeGetInfo: {},
  GetPluginInfo: {},
  GetPluginCapabilities: {},
  Probe: {},
};

const services = ['Identity', 'Controller', 'GroupController', 'SnapshotMetadata', 'Node'];
const methods = services.flatMap((service) => methodsOf(`csi.v1.${service}`));

test('every RPC of the contract is in this test', () => {
  assert.deepEqual(Object.keys(complete).sort(), methods.map((method) => method.name).sort());
});

describe('E02 a request without one of its required fields is INVALID_ARGUMENT', () => {
  for (const { name, requestType } of methods) {
    const received = (request: object) => decode<object>(requestType, encode(requestType, request));
    test(name, () => {
      const request = complete[name] ?? {};
      checkRequired(name, received(request));
      for (const field of Object.keys(request)) {
        assert.throws(
          () => checkRequired(name, received({ ...request, [field]: undefined })),
          (error) => error instanceof InvalidArgument && error.message === `${name} needs ${field}.`,
        );
      }
    });
  }
});

test('L09 a list or a map without elements is missing', () => {
  const { requestType } = methods.find(({ name }) => name === 'CreateVolume') ?? assert.fail();
  const request = decode<object>(requestType, encode(requestType, { name: 'a', volume_capabilities: [] }));
  assert.throws(() => checkRequired('CreateVolume', request), /needs volume_capabilities/);
  const modify = contract.lookupType('csi.v1.ControllerModifyVolumeRequest');
  const empty = decode<object>(modify, encode(modify, { volume_id: 'a', mutable_parameters: {} }));
  assert.throws(() => checkRequired('ControllerModifyVolume', empty), /needs mutable_parameters/);
});

test('L14 an empty message is not missing: what it lacks is found when it is parsed', () => {
  const type = contract.lookupType('csi.v1.NodePublishVolumeRequest');
  const request = decode<object>(type, encode(type, { volume_id: 'a', target_path: '/a', volume_capability: {} }));
  checkRequired('NodePublishVolume', request);
});

test('PB13 GR15 GR20 fields whose absence has another answer are not asked for', () => {
  const publish = contract.lookupType('csi.v1.NodePublishVolumeRequest');
  const request = { ...complete['NodePublishVolume'], staging_target_path: '' };
  checkRequired('NodePublishVolume', decode<object>(publish, encode(publish, request)));
  const remove = contract.lookupType('csi.v1.DeleteVolumeGroupSnapshotRequest');
  checkRequired('DeleteVolumeGroupSnapshot', decode<object>(remove, encode(remove, { group_snapshot_id: 'a' })));
});

test('PB03 a missing capability is named before anything that needs the volume or the staging path', () => {
  const type = contract.lookupType('csi.v1.NodePublishVolumeRequest');
  const request = decode<object>(type, encode(type, { volume_id: 'no-such', target_path: '/a' }));
  assert.throws(() => checkRequired('NodePublishVolume', request), /needs volume_capability/);
});
