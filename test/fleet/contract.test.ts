import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { contract, decode, encode } from '../../src/csi/contract.ts';
import { descriptorJson } from '../../src/csi/generated/descriptor.ts';
import type * as wire from '../../src/csi/generated/types.ts';

/*
 * proto/fleet.proto is published: nodes and controllers of neighbouring versions speak it with each other. What is here
 * stays as it is; what is new is added at the end.
 */
const published = [
  'rpc Fleet.Link stream FromNode stream FromController',
  'field FromNode.hello = 1 NodeHello',
  'field FromNode.inventory = 2 InventoryChange',
  'field FromNode.answer = 3 CallAnswer',
  'field FromNode.part = 4 StreamPart',
  'field FromNode.capacity = 5 CapacityTold',
  'field FromNode.renewal = 6 TokenRenewal',
  'field FromNode.beat = 7 Beat',
  'field FromNode.leaving = 8 Leaving',
  'field FromNode.moves = 9 MovesTold',
  'field FromNode.certificate = 10 CertificateRequest',
  'field FromController.welcome = 1 Welcome',
  'field FromController.call = 2 ForwardedCall',
  'field FromController.cancel = 3 CallCancel',
  'field FromController.credit = 4 StreamCredit',
  'field FromController.capacity = 5 CapacityQuestion',
  'field FromController.beat = 6 Beat',
  'field FromController.certificate = 7 NodeCertificate',
  'field NodeHello.protocol = 1 uint32',
  'field NodeHello.node_id = 2 string',
  'field NodeHello.driver_name = 3 string',
  'field NodeHello.driver_version = 4 string',
  'field NodeHello.instance = 5 string',
  'field NodeHello.linked_to = 6 repeated string',
  'field Welcome.protocol = 1 uint32',
  'field Welcome.controller = 2 string',
  'field Welcome.beat_milliseconds = 3 uint32',
  'field Welcome.instance = 4 string',
  'field InventoryChange.revision = 1 uint64',
  'field InventoryChange.starts = 2 bool',
  'field InventoryChange.complete = 3 bool',
  'field InventoryChange.put = 4 repeated InventoryEntry',
  'field InventoryChange.gone = 5 repeated string',
  'field InventoryChange.pools = 6 repeated PoolTold',
  'field InventoryEntry.kind = 1 Kind',
  'field InventoryEntry.id = 2 string',
  'field InventoryEntry.name = 3 string',
  'field InventoryEntry.pool = 4 string',
  'field InventoryEntry.source_id = 5 string',
  'field InventoryEntry.group_id = 6 string',
  'field InventoryEntry.adopted = 7 bool',
  'value InventoryEntry.Kind.UNKNOWN = 0',
  'value InventoryEntry.Kind.VOLUME = 1',
  'value InventoryEntry.Kind.SNAPSHOT = 2',
  'value InventoryEntry.Kind.GROUP = 3',
  'field PoolTold.name = 1 string',
  'field PoolTold.kind = 2 string',
  'field PoolTold.state = 3 string',
  'field PoolTold.reason = 4 string',
  'field ForwardedCall.call = 1 uint64',
  'field ForwardedCall.method = 2 string',
  'field ForwardedCall.timeout_milliseconds = 3 uint32',
  'field ForwardedCall.request = 4 bytes',
  'field ForwardedCall.credit = 5 uint32',
  'field CallCancel.call = 1 uint64',
  'field StreamCredit.call = 1 uint64',
  'field StreamCredit.parts = 2 uint32',
  'field StreamPart.call = 1 uint64',
  'field StreamPart.response = 2 bytes',
  'field CallAnswer.call = 1 uint64',
  'field CallAnswer.code = 2 uint32',
  'field CallAnswer.message = 3 string',
  'field CallAnswer.response = 4 bytes',
  'field CapacityQuestion.question = 1 uint64',
  'field CapacityQuestion.request = 2 bytes',
  'field CapacityTold.question = 1 uint64',
  'field CapacityTold.response = 2 bytes',
  'field TokenRenewal.token = 1 string',
  'rpc View.Look LookRequest stream LookPart',
  'field LookRequest.list = 1 string',
  'field LookRequest.volume = 2 string',
  'field LookPart.items = 1 repeated string',
  'field LookPart.problems = 2 repeated string',
  'rpc Change.RestoreTrashed ChangeRequest ChangeAnswer',
  'rpc Change.PurgeTrashed ChangeRequest ChangeAnswer',
  'rpc Change.CancelMove ChangeRequest ChangeAnswer',
  'rpc Change.FinishMove ChangeRequest ChangeAnswer',
  'rpc Change.GiveUpMove ChangeRequest ChangeAnswer',
  'rpc Change.CheckRestore ChangeRequest ChangeAnswer',
  'rpc Change.CheckCancel ChangeRequest ChangeAnswer',
  'rpc Change.CheckFinish ChangeRequest ChangeAnswer',
  'field ChangeRequest.volume_id = 1 string',
  'field ChangeRequest.lost_node = 2 string',
  'field ChangeRequest.lost_pool = 3 string',
  'field ChangeRequest.later_than = 4 uint64',
  'field ChangeRequest.disclaimed = 5 uint64',
  'field ChangeRequest.words = 6 uint32',
  'field ChangeRequest.even_so = 7 bool',
  'field ChangeAnswer.result = 1 string',
  'field MovesTold.moves = 1 repeated MoveTold',
  'field MoveTold.move_id = 1 string',
  'field MoveTold.volume_id = 2 string',
  'field MoveTold.source_node = 3 string',
  'field MoveTold.ticket = 4 string',
  'field MoveTold.unconnected = 5 bool',
  'field MoveTold.sight = 6 string',
  'field CertificateRequest.public_key = 1 bytes',
  'field CertificateRequest.address = 2 string',
  'field NodeCertificate.certificate = 1 string',
  'field NodeCertificate.authorities = 2 string',
  'rpc Moves.AdmitMove AdmitMoveRequest MoveAnswer',
  'rpc Moves.ConnectMove ConnectMoveRequest MoveAnswer',
  'rpc Moves.PlanMove StartMoveRequest MoveAnswer',
  'rpc Moves.StartMove StartMoveRequest MoveAnswer',
  'rpc Moves.ReadCopy ReadCopyRequest CopyTold',
  'rpc Moves.ReadNote ReadCopyRequest NoteTold',
  'rpc Moves.OutdateCopy OutdateCopyRequest OutdateCopyAnswer',
  'rpc Moves.SettleCopy SettleCopyRequest MoveAnswer',
  'rpc Moves.DisclaimCopy DisclaimCopyRequest DisclaimCopyAnswer',
  'rpc Moves.PlanMoveWithSnapshots StartMoveRequest MoveAnswer',
  'rpc Moves.StartMoveWithSnapshots StartMoveRequest MoveAnswer',
  'rpc Moves.CancelSnapshots CancelSnapshotsRequest MoveAnswer',
  'field AdmitMoveRequest.volume_id = 1 string',
  'field AdmitMoveRequest.move_id = 2 string',
  'field AdmitMoveRequest.target_node = 3 string',
  'field AdmitMoveRequest.kind = 4 string',
  'field ConnectMoveRequest.source_node = 1 string',
  'field ConnectMoveRequest.address = 2 string',
  'field StartMoveRequest.volume_id = 1 string',
  'field StartMoveRequest.move_id = 2 string',
  'field StartMoveRequest.source_node = 3 string',
  'field StartMoveRequest.ticket = 4 string',
  'field StartMoveRequest.to_pool = 5 string',
  'field StartMoveRequest.limit = 6 uint64',
  'field CancelSnapshotsRequest.volume_id = 1 string',
  'field CancelSnapshotsRequest.move_id = 2 string',
  'field CancelSnapshotsRequest.source_node = 3 string',
  'field CancelSnapshotsRequest.even_so = 4 bool',
  'field ReadCopyRequest.volume_id = 1 string',
  'field CopyTold.generation = 1 uint64',
  'field CopyTold.usable = 2 bool',
  'field CopyTold.elsewhere = 3 string',
  'field CopyTold.created_at = 4 string',
  'field CopyTold.place = 5 Place',
  'field CopyTold.trashed = 6 TrashedCopy',
  'value CopyTold.Place.UNKNOWN = 0',
  'value CopyTold.Place.NONE = 1',
  'value CopyTold.Place.POOL = 2',
  'field TrashedCopy.generation = 1 uint64',
  'field TrashedCopy.elsewhere = 2 string',
  'field TrashedCopy.created_at = 3 string',
  'field NoteTold.generation = 1 uint64',
  'field NoteTold.node = 2 string',
  'field OutdateCopyRequest.volume_id = 1 string',
  'field OutdateCopyRequest.generation = 2 uint64',
  'field OutdateCopyRequest.node = 3 string',
  'field OutdateCopyRequest.taken_back_at = 4 string',
  'field OutdateCopyRequest.created_at = 5 string',
  'field OutdateCopyAnswer.outdated = 1 bool',
  'field SettleCopyRequest.volume_id = 1 string',
  'field SettleCopyRequest.generation = 2 uint64',
  'field SettleCopyRequest.node = 3 string',
  'field MoveAnswer.result = 1 string',
  'field DisclaimCopyRequest.volume_id = 1 string',
  'field DisclaimCopyRequest.generation = 2 uint64',
  'field DisclaimCopyRequest.source_node = 3 string',
  'field DisclaimCopyRequest.lost_pool = 4 string',
  'field DisclaimCopyAnswer.generation = 1 uint64',
];

function facts(namespace: protobuf.NamespaceBase): string[] {
  return namespace.nestedArray.flatMap((object) => {
    const name = object.fullName.replace('.holdfast.fleet.v1.', '');
    if (object instanceof protobuf.Enum) {
      return Object.entries(object.values).map(([value, number]) => `value ${name}.${value} = ${number}`);
    }
    if (object instanceof protobuf.Service) {
      return object.methodsArray.map((method) => {
        const [request, response] = [method.requestStream, method.responseStream].map((is) => (is ? 'stream ' : ''));
        return `rpc ${name}.${method.name} ${request}${method.requestType} ${response}${method.responseType}`;
      });
    }
    if (!(object instanceof protobuf.Type)) return [];
    const fields = object.fieldsArray.map((field) => {
      return `field ${name}.${field.name} = ${field.id} ${field.repeated ? 'repeated ' : ''}${field.type}`;
    });
    return [...fields, ...facts(object)];
  });
}

test('what the driver has loaded of the link is what was published', () => {
  const root = protobuf.Root.fromJSON(JSON.parse(descriptorJson));
  root.resolveAll();
  const namespace = root.lookup('holdfast.fleet.v1');
  assert.ok(namespace instanceof protobuf.Namespace);
  assert.deepEqual(facts(namespace), published);
});

test('a kind of message, and a field, that a newer side knows are passed over', () => {
  const type = contract.lookupType('holdfast.fleet.v1.FromController');
  const unknownKind = Buffer.from([0xf2, 0x3f, 0x01, 0x61]); // field 1022, one byte
  assert.equal(decode<wire.FromController>(type, unknownKind).kind, undefined);
  const call = encode(type, { call: { call: 7n, method: '/csi.v1.Controller/DeleteVolume' } });
  const read = decode<wire.FromController>(type, Buffer.concat([call, unknownKind]));
  assert.equal(read.kind, 'call');
  assert.equal(read.call?.call, 7n);
});

test("a call's bytes arrive as they were, fields that nobody here knows included", () => {
  const type = contract.lookupType('holdfast.fleet.v1.FromController');
  const request = Buffer.from([0x0a, 0x01, 0x61, 0xf2, 0x3f, 0x02, 0x62, 0x63]);
  const read = decode<wire.FromController>(type, encode(type, { call: { call: 1n, request } }));
  assert.deepEqual(Buffer.from(read.call?.request ?? []), request);
});
