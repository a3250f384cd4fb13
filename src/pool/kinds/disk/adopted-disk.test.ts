import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Content } from '../../../kernel/block/blkid.ts';
import { differenceFrom } from './adopted-disk.ts';
import type { Note } from './label/note-file.ts';

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
const content = (uuid: string | undefined): Content => ({ kind: 'filesystem', type: 'ext4', uuid });
const blank: Content = { kind: 'blank' };
const disk = { name: 'wwid t10.disk', sizeBytes, content: content('a') };

test('a disk that was adopted is known by its name, its size and its filesystem', () => {
  assert.equal(differenceFrom(note, disk), undefined);
  assert.equal(differenceFrom(note, { ...disk, sizeBytes: sizeBytes + 1n }), undefined, 'a partition that has grown');
  assert.equal(differenceFrom(note, { ...disk, name: 'wwid t10.other' }), 'disk');
  assert.equal(differenceFrom(note, { ...disk, name: undefined }), 'disk');
  assert.equal(differenceFrom(note, { ...disk, sizeBytes: sizeBytes - 1n }), 'size');
  assert.equal(differenceFrom(note, { ...disk, content: content('b') }), 'filesystem');
  assert.equal(differenceFrom(note, { ...disk, content: content(undefined) }), 'filesystem');
  assert.equal(differenceFrom(note, { ...disk, content: blank }), 'filesystem');
});

test('what held no filesystem is known by its name, and what is wiped may have lost its own, but has no other', () => {
  const { filesystem: _, ...rest } = note;
  assert.equal(differenceFrom({ ...rest, filesystem: undefined }, { ...disk, content: content('b') }), undefined);
  const object = { name: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa.00000000', state: 'removed' } as const;
  const removed = { ...note, payload: { ...note.payload, object } };
  assert.equal(differenceFrom(removed, disk), undefined);
  assert.equal(differenceFrom(removed, { ...disk, content: blank }), undefined);
  for (const other of [content('b'), { kind: 'other', type: 'crypto_LUKS' }, { kind: 'ambivalent' }] as const) {
    assert.equal(differenceFrom(removed, { ...disk, content: other }), 'filesystem');
  }
  const trashed = { ...note, payload: { ...note.payload, object: { ...object, state: 'trash' } as const } };
  assert.equal(differenceFrom(trashed, { ...disk, content: blank }), 'filesystem');
});
