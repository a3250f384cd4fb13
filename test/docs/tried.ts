/* node test/docs/tried.ts: writes into docs/support.md which commands of the documentation are typed by npm run test:docs, and which are not. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { cannotRun, pages, runnable, untyped } from './pages.ts';

const file = fileURLToPath(new URL('../../docs/support.md', import.meta.url));

/** docs/support.md, with the table of today. */
export function supportPage(): string {
  return readFileSync(file, 'utf8').replace(
    /(?<=<!-- tried -->\n).*?(?=<!-- \/tried -->)/s,
    () => `| page | typed | not typed | because that needs |\n|---|---|---|---|\n${pages.map(rowOf).join('')}`,
  );
}

function rowOf(page: (typeof pages)[number]): string {
  const link = page.file.startsWith('docs/') ? page.file.slice('docs/'.length) : `../${page.file}`;
  const left = untyped(page);
  const isAll = cannotRun[page.file]?.commands === 'all';
  const list = left.map((command) => `\`${command.replaceAll('|', '\\|')}\``).join('<br>');
  const cell = isAll ? `all ${left.length}` : list;
  const why = left.length === 0 ? '' : (cannotRun[page.file]?.why ?? '');
  return `| [${page.title}](${link}) | ${runnable(page).length} | ${left.length === 0 ? '' : cell} | ${why} |\n`;
}

if (import.meta.main) writeFileSync(file, supportPage());
