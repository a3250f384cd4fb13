import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { snapshotIdFor, volumeIdFor } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { Secrets } from '../../volume/secrets.ts';
import type { VolumeRequest } from '../request.ts';
import { parseParameters } from './parameters.ts';
import { differences } from './replay.ts';

const here = { 'topology.holdfast.dev/node': 'n1' };
const there = { 'topology.holdfast.dev/node': 'n2' };
const gibibyte = 1n << 30n;

const record: VolumeRecord = {
  id: volumeIdFor('n1', 'fast', 'pvc-1'),
  name: 'pvc-1',
  sizeBytes: gibibyte,
  content: { type: 'mount', fsType: 'xfs' },
  accessModes: ['SINGLE_NODE_WRITER'],
  provisioning: 'thin',
  parameters: { pool: 'fast', mkfsOptions: '-K', 'csi.storage.k8s.io/pvc/name': 'claim' },
  blockSizeBytes: 512,
  createdAt: '2030-01-01T00:00:00.000Z',
};

const request: VolumeRequest = {
  name: 'pvc-1',
  range: { requiredBytes: gibibyte, limitBytes: undefined },
  demand: { access: { type: 'mount', fsType: 'xfs', mountFlags: [] }, modes: ['SINGLE_NODE_WRITER'] },
  parameters: parseParameters({ pool: 'fast', mkfsOptions: '-K' }),
  allParameters: {},
  mutableParameters: undefined,
  source: undefined,
  topology: undefined,
  secrets: new Secrets({}),
};

const found = (changes: Partial<VolumeRequest>, volume: VolumeRecord = record) =>
  differences({ poolName: 'fast', record: volume }, { ...request, ...changes }, here);
const asking = (parameters: Partial<VolumeRequest['parameters']>) => ({
  parameters: { ...request.parameters, ...parameters },
});
const withFs = (fsType: 'xfs' | 'ext4' | undefined): VolumeRequest['demand'] => ({
  ...request.demand,
  access: { type: 'mount', fsType, mountFlags: [] },
});

describe('a replay of CreateVolume', () => {
  const compatible: Record<string, Partial<VolumeRequest>> = {
    'CV14: the same request': {},
    'CV17: no range': { range: undefined },
    'CV17: a smaller size': { range: { requiredBytes: 1n, limitBytes: undefined } },
    'CV17: a range that holds the size': { range: { requiredBytes: 1n, limitBytes: gibibyte } },
    'CV17: a requisite topology that has its node': { topology: { requisite: [there, here], preferred: [] } },
    'CV17: another preference': { topology: { requisite: [], preferred: [there] } },
    'CV17: the filesystem left to us': { demand: withFs(undefined) },
    'CV17: the pool left to us': { parameters: { ...request.parameters, poolName: undefined } },
  };
  for (const [what, changes] of Object.entries(compatible)) {
    test(`${what} is compatible`, () => assert.deepEqual(found(changes), []));
  }

  const incompatible: Record<string, readonly [Partial<VolumeRequest>, RegExp]> = {
    'CV15: a larger size': [{ range: { requiredBytes: gibibyte + 1n, limitBytes: undefined } }, /at least 1073741825/],
    'CV15: a limit below its size': [{ range: { requiredBytes: undefined, limitBytes: 1n } }, /at most 1/],
    'CV16: another filesystem': [{ demand: withFs('ext4') }, /xfs/],
    'CV16: block': [{ demand: { access: { type: 'block' }, modes: ['SINGLE_NODE_WRITER'] } }, /block/],
    'CV16: another access mode': [
      { demand: { ...request.demand, modes: ['SINGLE_NODE_MULTI_WRITER'] } },
      /SINGLE_NODE_WRITER/,
    ],
    'CV16: one more access mode': [
      { demand: { ...request.demand, modes: ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY'] } },
      /SINGLE_NODE_WRITER/,
    ],
    'CV16: another pool': [{ parameters: { ...request.parameters, poolName: 'slow' } }, /pool fast/],
    'CV16: another provisioning': [{ parameters: { ...request.parameters, provisioning: 'thick' } }, /thin/],
    'CV16: other mkfsOptions': [{ parameters: { ...request.parameters, mkfsOptions: '' } }, /-K/],
    'CV16: a requisite topology without its node': [{ topology: { requisite: [there], preferred: [] } }, /this node/],
  };
  for (const [what, [changes, reason]] of Object.entries(incompatible)) {
    test(`${what} is not compatible, and the difference is named`, () => {
      const differencesFound = found(changes);
      assert.equal(differencesFound.length, 1);
      assert.match(differencesFound[0] ?? '', reason);
    });
  }

  describe('CV13 CV16: of a volume that was modified since', () => {
    // Made by a class with thick, overridden by thin, and undelete 1h; now it is thick, and undelete is 2h.
    const modified: VolumeRecord = {
      ...record,
      parameters: { ...record.parameters, provisioning: 'thick', undelete: '1h' },
      mutableParameters: { provisioning: 'thin' },
      provisioning: 'thick',
      undeleteSeconds: 7200,
    };
    test('what it was made with is compatible', () => {
      assert.deepEqual(found(asking({ provisioning: 'thin', undeleteSeconds: 3600 }), modified), []);
    });
    test('what it is now is compatible', () => {
      assert.deepEqual(found(asking({ provisioning: 'thick', undeleteSeconds: 7200 }), modified), []);
    });
    test('anything else is not', () => {
      for (const undeleteSeconds of [undefined, 0, 10_800]) {
        assert.match(found(asking({ provisioning: 'thin', undeleteSeconds }), modified).join(), /undelete is 2h/);
      }
      assert.match(found(asking({ undeleteSeconds: 60 })).join(), /undelete is its pool's/);
    });
  });

  const fromSnapshot = { type: 'snapshot', id: snapshotIdFor('n1', 'snap') } as const;
  const fromVolume = { type: 'volume', id: volumeIdFor('n1', 'fast', 'pvc-0') } as const;
  for (const [source, others] of [
    [undefined, [fromSnapshot, fromVolume]],
    [fromSnapshot, [undefined, fromVolume, { type: 'snapshot', id: snapshotIdFor('n1', 'another') } as const]],
    [fromVolume, [undefined, fromSnapshot]],
  ] as const) {
    test(`CV16: a volume made from ${source?.type ?? 'nothing'} was made from nothing else`, () => {
      const volume = source === undefined ? record : { ...record, source };
      assert.deepEqual(found({ source }, volume), []);
      for (const other of others) assert.match(found({ source: other }, volume).join(), /it was made from/);
    });
  }

  test('all differences are named at once', () => {
    assert.equal(found({ demand: withFs('ext4'), range: { requiredBytes: undefined, limitBytes: 1n } }).length, 2);
  });
});
