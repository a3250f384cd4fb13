import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineSplitter, OutputEnd } from './output.ts';

const chunks = fc.array(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes.map((byte) => byte & 0x7f))));

test('the end of an output is what was written last, however it came', () => {
  const property = fc.property(chunks, fc.integer({ min: 1, max: 100 }), (written, limitBytes) => {
    const end = new OutputEnd(limitBytes);
    for (const chunk of written) end.add(chunk);
    const all = Buffer.concat(written).toString();
    assert.equal(end.text(), all.slice(-limitBytes));
  });
  fc.assert(property);
});

test('lines are the same, however they came, and the last one needs no newline', () => {
  const texts = fc.array(fc.stringMatching(/^[a-ü€]{0,9}$/), { minLength: 1 });
  const property = fc.property(texts, fc.integer({ min: 1, max: 20 }), (lines, sizeBytes) => {
    const bytes = Buffer.from(lines.join('\n'));
    const heard: string[] = [];
    const splitter = new LineSplitter((line) => heard.push(line));
    for (let at = 0; at < bytes.length; at += sizeBytes) splitter.add(bytes.subarray(at, at + sizeBytes));
    splitter.end();
    assert.deepEqual(heard, lines.at(-1) === '' ? lines.slice(0, -1) : lines);
  });
  fc.assert(property);
});

test('a line that does not end is cut, and the next one is whole', () => {
  const heard: string[] = [];
  const splitter = new LineSplitter((line) => heard.push(line));
  for (let count = 0; count < 100; count++) splitter.add(Buffer.alloc(4096, 'x'));
  splitter.add(Buffer.from('y\nnext\n'));
  assert.deepEqual(
    heard.map((line) => line.length),
    [1 << 16, 4],
  );
});
