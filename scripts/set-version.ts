/*
 * Run by `npm version …`, and by `npm run version` after a change of `publishedAt`: package.json has the version and the place of
 * releases, and this writes them to the files that cannot read them there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { version } from '../src/version.ts';
import { imageRepository, taggedImageLines, writePublished } from './published.ts';

/** Files that name the version, and how each line before it begins. */
export const versionedLines: readonly (readonly [file: string, before: string])[] = [
  ...taggedImageLines.map(([file, before]) => [file, `${before}${imageRepository()}:`] as const),
  ['deploy/charts/holdfast/Chart.yaml', 'version: '],
  ['deploy/charts/holdfast/Chart.yaml', 'appVersion: '],
  ['deploy/kubectl/kubectl-holdfast', 'version='],
  ['docs/install.md', 'VERSION='],
];

/** Where the version begins that a line names. @throws Error if there is no such line, or are several */
export function versionPattern(before: string): RegExp {
  return new RegExp(
    `^(\\s*${before.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')})([0-9]+\\.[0-9]+\\.[0-9]+[-.0-9A-Za-z]*)`,
    'gm',
  );
}

if (import.meta.main) {
  writePublished(version);
  for (const [file, before] of versionedLines) {
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    const text = readFileSync(path, 'utf8');
    const found = [...text.matchAll(versionPattern(before))];
    if (found.length !== 1) throw new Error(`${file} has ${found.length} lines with ${before}`);
    writeFileSync(path, text.replace(versionPattern(before), `$1${version}`));
  }
}
