import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** Shaped like an id, and none. */
const others = ['XXH64'];

test('docs/internals/requirements.md says what each id is that a comment or a test cites', () => {
  const page = readFileSync(`${project}/docs/internals/requirements.md`, 'utf8');
  const rows = [...page.matchAll(/^\| (?<ids>[A-Z0-9, ]+) \| \S/gm)];
  const known = new Set(rows.flatMap(({ groups }) => (groups?.['ids'] ?? '').split(', ')));
  const cited = new Map<string, string>();
  for (const path of globSync('{src,test,csi-sanity}/**/*.ts', { cwd: project })) {
    if (path.includes('/generated/')) continue;
    const text = readFileSync(`${project}/${path}`, 'utf8');
    for (const [id] of text.matchAll(/\b(?:[A-Z]{1,3}\d{2}|H\d)\b/g)) cited.set(id, path);
  }
  const unknown = [...cited].filter(([id]) => !known.has(id) && !others.includes(id));
  assert.deepEqual(unknown, []);
  assert.deepEqual(
    [...known].filter((id) => !cited.has(id)),
    [],
    'ids that nothing cites',
  );
});
