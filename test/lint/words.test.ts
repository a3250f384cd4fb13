import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findWords, type WordFinding } from './words.ts';

const source = fileURLToPath(new URL('../../src', import.meta.url));

function findingsOf(file: string): string[] {
  const findings = findWords(readFileSync(`${source}/${file}`, 'utf8'));
  // The texts of unit tests are titles and data.
  const isShown = ({ part }: WordFinding) => !(part === 'text' && file.endsWith('.test.ts'));
  return findings.filter(isShown).map(({ line, rule, words }) => `src/${file}:${line} "${words}" (${rule})`);
}

test('comments, messages and names of src keep the rules for words', () => {
  const files = globSync('**/*.ts', { cwd: source, exclude: ['**/generated/**'] });
  assert.ok(files.length > 100);
  assert.deepEqual(files.flatMap(findingsOf), []);
});

/** Code, and the findings in it as `line part words`. */
const examples: readonly [code: string, ...findings: string[]][] = [
  ['/** The name of a pool. */\nconst a = 1;'],
  ['/** What a pool is called. */', '1 comment What'],
  ['/**\n * Whether it is open.\n */', '1 comment Whether'],
  ['/**\n * A disk that was\n * told of it.\n */', '3 comment told'],
  ['// A disk for\n// so long.', '1 comment for so long'],
  ['// The first.\n// So it goes.\nf(); // As before.', '3 comment As'],
  ["throw new Error('it was not told');", '1 text told'],
  ["f('told'); g(/what is/);"],
  [
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is code
    'const a = `${b({ c: `whoever ${1} anew` })} likewise`;',
    '1 text whoever',
    '1 text anew',
    '1 text likewise',
  ],
  ["const a = 'https://a.b/';\nconst mostPools = 1;", '2 identifier mostPools'],
  ['const patienceMs = leastOf(1);', '1 identifier patienceMs', '1 identifier leastOf'],
  ['const openingPatienceMs = 1;', '1 identifier openingPatienceMs'],
  ['const isUtmost = a / b; const c = d / leastMs;', '1 identifier leastMs'],
];

for (const [code, ...findings] of examples) {
  test(`${JSON.stringify(code)} has ${findings.length} findings`, () => {
    const found = findWords(code).map(({ line, part, words }) => `${line} ${part} ${words}`);
    assert.deepEqual(found.toSorted(), findings.toSorted());
  });
}
