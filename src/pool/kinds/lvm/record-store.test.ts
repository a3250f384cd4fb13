import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { volumeIdFor } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { OwnLv } from './group/group-state.ts';
import { recordedBytes, tagsWhenDeleted, volumeTags } from './record-store.ts';
import { stateOf, wipeOf } from './tags.ts';

const record: VolumeRecord = {
  id: volumeIdFor('node', 'pool', 'a'),
  name: 'a',
  sizeBytes: 8n << 20n,
  content: { type: 'block' },
  accessModes: ['SINGLE_NODE_WRITER'],
  provisioning: 'thick',
  parameters: {},
  blockSizeBytes: 512,
  createdAt: new Date(0).toISOString(),
};

function lvWith(tags: readonly string[]): OwnLv {
  const { id, sizeBytes } = record;
  const shape = { layout: 'linear', stripes: 1, syncPercent: '', attributes: '-wi-------' } as const;
  return { ...shape, name: `${id}.00c0ffee`, id, state: 'volume', sizeBytes, tags };
}

describe('the tags of a logical volume', () => {
  test('say what becomes of its data, in whatever state it is', () => {
    const deletion = { deletedAt: '2026-01-01T00:00:00Z', purgeAt: '2026-01-02T00:00:00Z', poolAgeMs: 1 };
    for (const wipe of ['zero', 'none', undefined] as const) {
      const lv = lvWith(volumeTags(record, wipe));
      assert.equal(wipeOf(lv.tags), wipe);
      assert.equal(wipeOf(tagsWhenDeleted(lv, undefined)), wipe);
      const trashed = lvWith(tagsWhenDeleted(lv, deletion));
      assert.deepEqual([stateOf(trashed.tags), wipeOf(trashed.tags)], ['trash', wipe]);
      assert.equal(wipeOf(volumeTags(record, wipeOf(trashed.tags))), wipe);
    }
  });

  test('say how large its record says that it is, if that can be read', () => {
    const tags = volumeTags(record, undefined);
    assert.equal(recordedBytes(lvWith(tags)), record.sizeBytes);
    assert.equal(recordedBytes(lvWith(tags.slice(0, -1))), undefined);
  });
});
