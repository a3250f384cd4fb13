import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { DataLoss } from './errors.ts';
import { snapshotIdFor, volumeIdFor } from './id.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from './record.ts';

const record: VolumeRecord = {
  id: volumeIdFor('node', 'pool', 'name'),
  name: 'name',
  sizeBytes: 1n << 30n,
  content: { type: 'mount', fsType: 'ext4' },
  accessModes: ['SINGLE_NODE_WRITER'],
  provisioning: 'thin',
  parameters: { pool: 'default' },
  blockSizeBytes: 512,
  createdAt: '2026-01-02T03:04:05.678Z',
};

describe('the record', () => {
  test('L08 L12: comes back from disk as it was, whatever the name and size', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.bigInt({ min: 0n, max: (1n << 63n) - 1n }), (name, sizeBytes) => {
        const written = { ...record, name, sizeBytes, parameters: { 'csi.storage.k8s.io/pvc/name': name } };
        assert.deepEqual(parseRecord(serializeRecord(written), 'here'), written);
      }),
    );
  });

  test('what not every volume has comes back too', () => {
    const written: VolumeRecord = {
      ...record,
      mutableParameters: { provisioning: 'thick', undelete: '1h' },
      source: { type: 'snapshot', id: snapshotIdFor('node', 'snap') },
      undeleteSeconds: 3600,
      publication: { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: true },
      ephemeral: { handle: 'csi-0123', digest: 'of the capability' },
    };
    assert.deepEqual(parseRecord(serializeRecord(written), 'here'), written);
    assert.throws(
      () =>
        parseRecord(serializeRecord(written).replace('"SINGLE_NODE_WRITER",\n    "readonly"', '"?", "readonly"'), ''),
      DataLoss,
    );
  });

  test('a torn, foreign or newer record is DATA_LOSS that names the file, never a guess', () => {
    const whole = serializeRecord(record);
    const copied = serializeRecord({ ...record, source: { type: 'snapshot', id: snapshotIdFor('node', 'snap') } });
    for (const text of [
      '',
      whole.slice(0, -20),
      '[]',
      whole.replace('"format": 1', '"format": 2'),
      whole.replace('vol-', '../'),
      whole.replace('"ext4"', '"ntfs"'),
      copied.replace('snap-', '../'),
      copied.replace('"snapshot"', '"volume"'),
      whole.replace('"name": "name"', '"name": "name", "surprise": 1'),
    ]) {
      assert.throws(
        () => parseRecord(text, '/pool/volume.json'),
        (error) => error instanceof DataLoss && error.message.includes('/pool/volume.json'),
      );
    }
  });
});
