import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Mistake, SectionReader } from '../../../../settings/section.ts';
import { readLvmOptions } from '../config.ts';

function read(section: Readonly<Record<string, unknown>>) {
  const mistakes: Mistake[] = [];
  const options = readLvmOptions(new SectionReader({ volumeGroup: 'vg0', ...section }, [], mistakes), { name: 'a' });
  return { options, mistakes: mistakes.map(({ message, path }) => `${path.join('.')}: ${message}`) };
}

describe('the thin pool of a configuration', () => {
  test('has a size, and may have metadata and an overcommit', () => {
    const { mistakes, options } = read({ thinPool: { size: '500Gi', metadata: '1Gi', overcommit: 4n } });
    assert.deepEqual(mistakes, []);
    assert.deepEqual(options.thinPool, { sizeBytes: 500n << 30n, metadataBytes: 1n << 30n, overcommit: 4 });
    assert.equal(
      read({ thinPool: { size: '1Ti', metadata: '16192Mi' } }).options.thinPool?.metadataBytes,
      16_192n << 20n,
    );
    assert.equal(read({ thinPool: { size: '1Ti' } }).options.thinPool?.overcommit, 1);
    assert.equal(read({}).options.thinPool, undefined);
  });

  test('mistakes are told', () => {
    const told: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
      [{ thinPool: '500Gi' }, /^thinPool: must be a section with size, metadata, overcommit/],
      [{ thinPool: {} }, /^thinPool: needs a size, such as 500Gi/],
      [
        { thinPool: { size: '1Gi', chunk: '64Ki' } },
        /^thinPool\.chunk: unknown key \(known: size, metadata, overcommit\)$/,
      ],
      [
        { thinPool: { size: '1Gi', overcomit: 2n } },
        /^thinPool\.overcomit: unknown key \(did you mean 'overcommit'\?\)$/,
      ],
      [{ thinPool: { size: '1Mi' } }, /^thinPool\.size: must be at least 300Mi/],
      [{ thinPool: { size: '1Gi', metadata: '16Gi' } }, /^thinPool\.metadata: must be at most 16192Mi, not '16Gi'/],
      [{ thinPool: { size: '80%' } }, /^thinPool\.size: '80%' is not a size: /],
      [{ thinPool: { size: '1Gi' }, wipe: 'zero' }, /^wipe: cannot be with a thinPool/],
      [{ trim: 'daily' }, /^trim: needs a thinPool/],
    ];
    for (const [section, expected] of told) {
      const { mistakes } = read(section);
      assert.equal(mistakes.length, 1);
      assert.match(mistakes[0] ?? '', expected);
    }
  });
});
