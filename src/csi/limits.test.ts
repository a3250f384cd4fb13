import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../volume/errors.ts';
import { contract, decode, encode } from './contract.ts';
import type * as wire from './generated/types.ts';
import type { Draft } from './handler.ts';
import { checkLimits } from './limits.ts';

/** Checks a message as the pipeline does: after encoding and decoding. */
function check(typeName: string, message: object): void {
  const type = contract.lookupType(`csi.v1.${typeName}`);
  checkLimits(type, decode<object>(type, encode(type, message)));
}

function refuses(typeName: string, message: object, words: RegExp): void {
  assert.throws(
    () => check(typeName, message),
    (error) => error instanceof InvalidArgument && words.test(error.message),
  );
}

/** Text of exactly this many bytes, in characters of one, two, three and four bytes. */
const alphabets = ['a', 'ä', '€', '😀'];
function textOf(bytes: number, character: string): string {
  const whole = character.repeat(Math.floor(bytes / Buffer.byteLength(character)));
  return whole.padEnd(whole.length + bytes - Buffer.byteLength(whole), 'x');
}

describe('strings are measured in bytes of UTF-8', () => {
  for (const character of alphabets) {
    test(`L01 L02 128 bytes of '${character}' pass, 129 do not`, () => {
      const [longest, tooLong] = [textOf(128, character), textOf(129, character)];
      assert.equal(Buffer.byteLength(longest), 128);
      check('CreateVolumeRequest', { name: longest });
      refuses('CreateVolumeRequest', { name: tooLong }, /^name is longer than 128 bytes/);
      check('DeleteVolumeRequest', { volume_id: longest });
      refuses('DeleteVolumeRequest', { volume_id: tooLong }, /^volume_id /);
    });
  }

  test('L02 nested strings and elements of lists have the limit too', () => {
    const longest = textOf(128, '€');
    check('CreateVolumeGroupSnapshotRequest', { source_volume_ids: Array(50).fill(longest) });
    refuses('CreateVolumeGroupSnapshotRequest', { source_volume_ids: ['ok', `${longest}x`] }, /source_volume_ids/);
    const capability = (fs_type: string) => ({ volume_capability: { mount: { fs_type } } });
    check('NodeStageVolumeRequest', capability(longest));
    refuses('NodeStageVolumeRequest', capability(`${longest}x`), /^volume_capability\.mount\.fs_type /);
    const source = (snapshot_id: string) => ({ volume_content_source: { snapshot: { snapshot_id } } });
    refuses('CreateVolumeRequest', source(`${longest}x`), /^volume_content_source\.snapshot\.snapshot_id /);
  });

  test('L05 a node_id may have 256 bytes', () => {
    check('ControllerPublishVolumeRequest', { node_id: textOf(256, 'ä') });
    refuses('ControllerPublishVolumeRequest', { node_id: textOf(257, 'ä') }, /node_id is longer than 256/);
  });

  test('L06 paths may be as long as the kernel allows', () => {
    for (const [type, field] of [
      ['NodeStageVolumeRequest', 'staging_target_path'],
      ['NodePublishVolumeRequest', 'target_path'],
      ['NodeGetVolumeStatsRequest', 'volume_path'],
    ] as const) {
      check(type, { [field]: textOf(4095, '€') });
      refuses(type, { [field]: textOf(4096, '€') }, new RegExp(`^${field} is longer than 4095`));
      refuses(type, { [field]: '/a\0b' }, /not allowed/);
    }
  });
});

describe('maps and lists are measured as a whole', () => {
  for (const field of ['parameters', 'mutable_parameters', 'secrets']) {
    test(`L03 4096 bytes of keys and values pass in ${field}, 4097 do not`, () => {
      const ofBytes = (bytes: number) => ({ [field]: { käse: textOf(2000, '€'), b: textOf(bytes - 2006, '😀') } });
      check('CreateVolumeRequest', ofBytes(4096));
      refuses('CreateVolumeRequest', ofBytes(4097), new RegExp(`^${field} has 4097 bytes`));
    });
  }

  test('L03 volume_context, publish_context and topology segments too', () => {
    const map = { k: textOf(4096, 'a') };
    refuses('NodeStageVolumeRequest', { volume_context: map }, /volume_context/);
    refuses('NodePublishVolumeRequest', { publish_context: map }, /publish_context/);
    const topology = { accessibility_requirements: { requisite: [{ segments: map }] } };
    refuses('CreateVolumeRequest', topology, /^accessibility_requirements\.requisite\.segments /);
  });

  test('L04 mount_flags are limited by their sum; one flag may be long', () => {
    const flags = (...mount_flags: string[]) => ({ volume_capabilities: [{ mount: { mount_flags } }] });
    check('CreateVolumeRequest', flags(textOf(4096, '€')));
    check('CreateVolumeRequest', flags(textOf(4000, 'ä'), textOf(96, 'a')));
    refuses('CreateVolumeRequest', flags(textOf(4000, 'ä'), textOf(97, 'a')), /mount_flags has 4097 bytes/);
  });

  test('X02 X03 a message about a field never quotes its value', () => {
    const secret = 'hunter2'.repeat(1000);
    for (const request of [
      { secrets: { password: secret } },
      { volume_capabilities: [{ mount: { mount_flags: [secret] } }] },
    ]) {
      assert.throws(
        () => check('CreateVolumeRequest', request),
        (error) => error instanceof InvalidArgument && !error.message.includes('hunter2'),
      );
    }
  });
});

describe('characters of names', () => {
  const forbidden = [
    ...Array.from({ length: 0x20 }, (_, code) => code).filter((code) => ![0x9, 0xa, 0xd].includes(code)),
    ...Array.from({ length: 0x21 }, (_, offset) => 0x7f + offset),
  ];
  for (const type of ['CreateVolumeRequest', 'CreateSnapshotRequest', 'CreateVolumeGroupSnapshotRequest']) {
    test(`L08 ${type} refuses control characters in its name, each of the ${forbidden.length}`, () => {
      for (const code of forbidden) {
        refuses(type, { name: `a${String.fromCodePoint(code)}b` }, /^name contains a character/);
      }
    });
    test(`L08 ${type} takes every other name`, () => {
      for (const name of [
        'a\tb\nc\rd',
        '/',
        '..',
        '../../etc/passwd',
        '\'"`$(x)',
        '-rf',
        ' ',
        '😀',
        '\u00a0',
        '\u200b',
        'ä',
      ]) {
        check(type, { name });
      }
    });
  }
});

describe('numbers', () => {
  test('L11 sizes and page sizes are not negative', () => {
    refuses(
      'CreateVolumeRequest',
      { capacity_range: { required_bytes: -1n } },
      /^capacity_range\.required_bytes is neg/,
    );
    refuses('ControllerExpandVolumeRequest', { capacity_range: { limit_bytes: -(2n ** 63n) } }, /limit_bytes/);
    refuses('ListVolumesRequest', { max_entries: -1 }, /max_entries/);
    refuses('ListSnapshotsRequest', { max_entries: -(2 ** 31) }, /max_entries/);
    refuses('GetMetadataAllocatedRequest', { max_results: -1 }, /max_results/);
    refuses('GetMetadataDeltaRequest', { max_results: -1 }, /max_results/);
  });

  test('L12 the largest sizes pass', () => {
    check('CreateVolumeRequest', { capacity_range: { required_bytes: 2n ** 63n - 1n, limit_bytes: 2n ** 53n + 1n } });
  });

  test('SM03 a negative starting_offset is not for the limits: it has a code of its own', () => {
    check('GetMetadataAllocatedRequest', { starting_offset: -1n });
  });
});

describe('what we emit (the test client checks every response with this)', () => {
  test('L07 a long message is found', () => {
    const condition: Draft<wire.NodeGetVolumeStatsResponse> = { volume_condition: { message: textOf(129, 'a') } };
    refuses('NodeGetVolumeStatsResponse', condition, /^volume_condition\.message/);
    refuses('ValidateVolumeCapabilitiesResponse', { message: textOf(129, 'a') }, /^message/);
  });

  test('L11 a negative figure is found', () => {
    refuses('GetCapacityResponse', { available_capacity: -1n }, /available_capacity/);
    refuses('GetCapacityResponse', { maximum_volume_size: { value: -1n } }, /maximum_volume_size/);
    refuses('NodeGetVolumeStatsResponse', { usage: [{ total: 1n }, { used: -1n }] }, /^usage\.used/);
    refuses('NodeGetInfoResponse', { max_volumes_per_node: -1n }, /max_volumes_per_node/);
    refuses('CreateVolumeResponse', { volume: { capacity_bytes: -1n } }, /capacity_bytes/);
  });
});
