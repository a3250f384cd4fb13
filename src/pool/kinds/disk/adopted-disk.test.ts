import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differenceFrom } from './adopted-disk.ts';
import type { Note } from './note-file.ts';

const sizeBytes = 1n << 30n;
const note: Note = {
  filesystem: { type: 'ext4', uuid: 'a' },
  payload: {
    poolId: '7d0f1f4c-64ab-4a3e-8e69-2a3d6a1c7a77',
    disk: { name: 'wwid t10.disk', sizeBytes },
    data: { offsetBytes: 0n, lengthBytes: sizeBytes },
    object: { name: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00000000', state: 'volume' },
  },
};
const disk = { name: 'wwid t10.disk', sizeBytes, uuid: 'a' };

test('a disk that was adopted is known by its name, its size and its filesystem', () => {
  assert.equal(differenceFrom(note, disk), undefined);
  assert.equal(differenceFrom(note, { ...disk, sizeBytes: sizeBytes + 1n }), undefined, 'a partition that has grown');
  assert.equal(differenceFrom(note, { ...disk, name: 'wwid t10.other' }), 'disk');
  assert.equal(differenceFrom(note, { ...disk, name: undefined }), 'disk');
  assert.equal(differenceFrom(note, { ...disk, sizeBytes: sizeBytes - 1n }), 'size');
  assert.equal(differenceFrom(note, { ...disk, uuid: 'b' }), 'filesystem');
  assert.equal(differenceFrom(note, { ...disk, uuid: undefined }), 'filesystem');
});

test('what held no filesystem is known by its name, and what is wiped may have lost its own', () => {
  const { filesystem: _, ...rest } = note;
  assert.equal(differenceFrom({ ...rest, filesystem: undefined }, { ...disk, uuid: 'b' }), undefined);
  const object = { name: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00000000', state: 'removed' } as const;
  assert.equal(
    differenceFrom({ ...note, payload: { ...note.payload, object } }, { ...disk, uuid: undefined }),
    undefined,
  );
  const trashed = { ...object, state: 'trash' } as const;
  assert.equal(
    differenceFrom({ ...note, payload: { ...note.payload, object: trashed } }, { ...disk, uuid: undefined }),
    'filesystem',
  );
});
