import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const page = readFileSync(fileURLToPath(new URL('../../docs/troubleshooting.md', import.meta.url)), 'utf8');

test('docs/troubleshooting.md says below a message first what to do', () => {
  const below = [...page.matchAll(/^```text\n[^`]*?\n```\n\n(.*)$/gm)].map(([, line = '']) => line);
  assert.ok(below.length >= 40, `${below.length}`);
  // In bold, so that a reader in a hurry finds it.
  assert.deepEqual(
    below.filter((line) => !/^\*\*[A-Z`].*\.\*\*/.test(line)),
    [],
  );
});
