import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pagesIn = (directory: string, recursive: boolean) =>
  readdirSync(join(root, directory), { recursive, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => normalize(join(directory, name)));
const files = [...pagesIn('.', false), ...pagesIn('docs', true), ...pagesIn('deploy', true)];

/** Without blocks of code. */
const textOf = (file: string) => readFileSync(join(root, file), 'utf8').replaceAll(/```.*?```/gs, '');

/** As GitHub makes them of headings. */
function anchorsOf(file: string): Set<string> {
  const headings = textOf(file).matchAll(/^#+ (.*)$/gm);
  return new Set(
    Array.from(headings, ([, heading = '']) =>
      heading
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_\- ]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  );
}

test('each link of a page leads to a file that is there, and to a heading in it', () => {
  assert.ok(files.length > 40, `${files.length}`);
  const broken = files.flatMap((file) =>
    [...textOf(file).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = '']) => {
      if (/^[a-z]+:/.test(link)) return [];
      const [path = '', anchor = ''] = link.split('#');
      const target = path === '' ? file : normalize(join(dirname(file), path));
      const isThere = existsSync(join(root, target));
      const hasAnchor = anchor === '' || !target.endsWith('.md') || (isThere && anchorsOf(target).has(anchor));
      return isThere && hasAnchor ? [] : [`${file}: ${link}`];
    }),
  );
  assert.deepEqual(broken, []);
});
