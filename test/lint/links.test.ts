import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pages = globSync(['*.md', 'docs/**/*.md', 'deploy/**/*.md'], { cwd: root });

/** As GitHub makes it of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function anchorsIn(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));
}

/** What is wrong with a link from a page of this project; undefined: nothing, or it leads elsewhere. */
function problemOf(page: string, link: string): string | undefined {
  if (/^[a-z]+:/.test(link)) return undefined;
  const [path = '', anchor] = link.split('#', 2);
  const target = path === '' ? page : normalize(join(dirname(page), path));
  if (!existsSync(join(root, target))) return `${page}: ${link} leads nowhere`;
  if (anchor === undefined || !target.endsWith('.md')) return undefined;
  const anchors = anchorsIn(readFileSync(join(root, target), 'utf8'));
  return anchors.includes(anchor) ? undefined : `${page}: ${target} has no heading #${anchor}`;
}

test('links in the documents lead somewhere', () => {
  assert.ok(pages.includes('README.md'));
  const problems = pages.flatMap((page) => {
    const links = readFileSync(join(root, page), 'utf8').matchAll(/\]\(([^)\s]+)\)/g);
    return [...links].flatMap(([, link = '']) => problemOf(page, link) ?? []);
  });
  assert.deepEqual(problems, []);
});
