import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type LabelForm, readRecordLabels, recordLabels } from './record-labels.ts';

const digest = (text: string) => createHash('sha256').update(text).digest('base64');

const forms: readonly LabelForm[] = [
  { prefix: 'a/record.', longestValue: 256, encoding: 'base64url' },
  { prefix: 'record-', longestValue: 63, encoding: 'hex' },
];

describe('records in labels', () => {
  for (const form of forms) {
    test(`any text is read as it was written, among other labels (${form.encoding})`, () => {
      fc.assert(
        fc.property(fc.string({ maxLength: 2000 }), (text) => {
          const labels = recordLabels(form, text);
          for (const value of Object.values(labels)) assert.ok(value.length <= form.longestValue);
          assert.equal(readRecordLabels(form, { ...labels, [`${form.prefix}77`]: 'old', other: 'x' }), text);
        }),
      );
    });

    test(`a label that is missing or changed makes it unreadable (${form.encoding})`, () => {
      const labels = recordLabels(
        form,
        JSON.stringify({ text: 'some text '.repeat(3), numbers: [1, 2, 3, 4, 5, 77, 1234] }),
      );
      for (const name of Object.keys(labels)) {
        const { [name]: value = '', ...without } = labels;
        assert.equal(readRecordLabels(form, without), undefined);
        const changed = `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`;
        assert.equal(readRecordLabels(form, { ...labels, [name]: changed }), undefined);
      }
      assert.equal(readRecordLabels(form, {}), undefined);
    });
  }

  test('pieces of two records are no record', () => {
    const [form] = forms;
    assert.ok(form);
    const long = (seed: string) =>
      recordLabels(form, Array.from({ length: 40 }, (_, at) => digest(`${seed}${at}`)).join(' '));
    const [one, other] = [long('a'), long('b')];
    assert.ok(Object.keys(one).length > 2);
    assert.equal(readRecordLabels(form, { ...one, [`${form.prefix}1`]: other[`${form.prefix}1`] ?? '' }), undefined);
  });
});
