import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSwaps } from './swaps.ts';

test('what is swapped to is read as proc(5) has it, whatever is in its name', () => {
  const text = [
    'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority',
    '/dev/sda2                               partition\t8388604\t\t0\t\t-2',
    '/a\\040swap\\012file                      file\t\t1024\t\t0\t\t-3',
    '',
  ].join('\n');
  assert.deepEqual(parseSwaps(text), ['/dev/sda2', '/a swap\nfile']);
  assert.deepEqual(parseSwaps(''), []);
});
