import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** How often cryptsetup runs for each operation, as docs/encryption.md says. */
export function cryptsetupTold(): Map<string, number> {
  const page = readFileSync(fileURLToPath(new URL('../../docs/encryption.md', import.meta.url)), 'utf8');
  const [, section = ''] = page.split('\n## How often cryptsetup runs\n');
  const [rows = ''] = section.split('\n## ');
  return new Map(Array.from(rows.matchAll(/^\| ([^|]+) \| ([0-9]+) \|$/gm), ([, name = '', n]) => [name, Number(n)]));
}
