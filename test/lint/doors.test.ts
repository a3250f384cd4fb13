import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../../src', import.meta.url));

/** The linter says it while one types, but each of its rules for a directory replaces those before it. */
const doors = { koffi: 'kernel/', execa: 'command/', 'node:child_process': 'command/' } as const;

for (const [name, home] of Object.entries(doors)) {
  test(`${name} is imported below src/${home} alone`, () => {
    const text = new RegExp(`(?:from|import|import\\(|require\\() ?'${name}'`);
    const files = globSync('**/*.ts', { cwd: source }).filter((file) => !file.endsWith('.test.ts'));
    const users = files.filter((file) => text.test(readFileSync(`${source}/${file}`, 'utf8')));
    assert.ok(users.length > 0);
    assert.deepEqual(
      users.filter((file) => !file.startsWith(home)),
      [],
    );
  });
}

/** In folders of any depth, which a pattern of the linter cannot tell from those of another kind. */
test('a kind of pool imports no other kind', () => {
  const kindOf = (path: string) => /^pool\/kinds\/([^/]+)\//.exec(path)?.[1];
  const files = globSync('pool/kinds/*/**/*.ts', { cwd: source });
  const imports = files.flatMap((file) => {
    const text = readFileSync(`${source}/${file}`, 'utf8');
    const targets = Array.from(text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g), ([, path = '']) => path);
    return targets.map((path) => ({ file, target: join(dirname(file), path) }));
  });
  assert.ok(imports.length > 500);
  const foreign = imports.filter(({ file, target }) => ![undefined, kindOf(file)].includes(kindOf(target)));
  assert.deepEqual(foreign, []);
});
