import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { changeOf, documentNames, documentTags, readDocument, stateOf, stateTag, tagsOfDocument } from './tags.ts';

/** lvm(8): what a tag may have. */
const tagPattern = /^[a-zA-Z0-9_+.][a-zA-Z0-9_+./=!:&#-]{0,1023}$/;

describe('records in tags', () => {
  test('any text comes back, from tags in any order that LVM takes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 5000 }), fc.nat(), (text, seed) => {
        const tags = documentTags('record', text);
        for (const tag of tags) assert.match(tag, tagPattern);
        const shuffled = tags.toSorted((a, b) => (hash(a, seed) < hash(b, seed) ? -1 : 1));
        assert.equal(readDocument('record', [stateTag('volume'), ...shuffled, 'other.tag']), text);
      }),
    );
  });

  test('a document of which a piece is missing, or is there twice, is not whole; one that is not there is none', () => {
    const tags = documentTags('record', 'x'.repeat(3000));
    assert.equal(tags.length, 4);
    for (const index of tags.keys()) assert.equal(readDocument('record', tags.toSpliced(index, 1)), null);
    assert.equal(readDocument('record', [...tags, 'holdfast.record.0/4=abcd']), null);
    assert.equal(readDocument('record', ['holdfast.record.x']), null);
    assert.equal(readDocument('deleted', tags), undefined);
  });

  test('a document is changed by what differs alone', () => {
    const before = [stateTag('draft'), ...documentTags('record', 'a'.repeat(2000))];
    const after = [stateTag('volume'), ...documentTags('record', 'a'.repeat(2000))];
    assert.deepEqual(changeOf(before, after), { remove: [stateTag('draft')], add: [stateTag('volume')] });
    assert.deepEqual(changeOf(after, after), { remove: [], add: [] });
  });

  test('what says nothing of itself, or two things, is not ours', () => {
    assert.equal(stateOf([]), undefined);
    assert.equal(stateOf(['holdfast.volumes', 'volume']), undefined);
    assert.equal(stateOf([stateTag('volume'), stateTag('trash')]), undefined);
    assert.equal(stateOf(['mine', stateTag('trash')]), 'trash');
  });

  test('documents are found by how their names begin', () => {
    const tags = [...documentTags('group-a', '1'), ...documentTags('group-b', '2'), ...documentTags('age', '3')];
    assert.deepEqual(documentNames('group-', tags), ['group-a', 'group-b']);
    assert.equal(tagsOfDocument('group-a', tags).length, 1);
  });
});

function hash(text: string, seed: number): number {
  let sum = seed;
  for (const character of text) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) | 0;
  return sum;
}
