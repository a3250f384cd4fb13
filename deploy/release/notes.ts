import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../image/image.ts';

/**
 * What the changelog says of a version; of one that it does not name yet, what it has under "Unreleased".
 * @throws Error if a release must have notes of its own and has none
 */
export function notesOf(version: string, { isRequired }: { readonly isRequired: boolean }): string {
  const sections = readFileSync(join(projectRoot, 'CHANGELOG.md'), 'utf8').split(/^## /m);
  const titled = (title: string) => sections.find((text) => text.split(/\s/, 1)[0] === title);
  const own = titled(version);
  if (own === undefined && isRequired) throw new Error(`CHANGELOG.md has no section "## ${version}"`);
  return `# Holdfast ${(own ?? titled('Unreleased') ?? version).trim()}\n`;
}
