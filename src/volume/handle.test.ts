import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { fileNameOf, parseHandle } from './handle.ts';
import { volumeIdFor } from './id.ts';

const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.constantFrom('..', '.', '/', 'a/b'),
);

test('an id of ours is a handle, and its file has its name', () => {
  const id = volumeIdFor('node', 'pool', 'name');
  assert.equal(parseHandle(id), id);
  assert.equal(fileNameOf(id), id);
});

test('a handle that a person wrote is taken as it is', () => {
  for (const text of ['nfs.example.org/share##', 'my volume', '../../etc', 'Größe', 'vol-short']) {
    assert.equal(parseHandle(text), text);
  }
});

test('text that cannot be shown on one line, or that CSI does not allow, is no handle', () => {
  for (const text of ['', 'a\nb', 'a\0', '\u2028', '\u0085', '\ud800', 'a'.repeat(129), 'ä'.repeat(65)]) {
    assert.equal(parseHandle(text), undefined, JSON.stringify(text));
  }
});

test('the name of a file is one name, made of a few characters, whatever the handle', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const handle = parseHandle(text);
      if (handle === undefined) return;
      const name = fileNameOf(handle);
      assert.match(name, /^(vol|pv)-[a-z2-7]{26}$/);
      assert.equal(basename(name), name);
    }),
  );
});

test('two handles never share a file', () => {
  fc.assert(
    fc.property(anyText, anyText, (one, other) => {
      const [a, b] = [parseHandle(one), parseHandle(other)];
      if (a === undefined || b === undefined || a === b) return;
      assert.notEqual(fileNameOf(a), fileNameOf(b));
    }),
  );
});
