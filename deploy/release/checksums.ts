import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of all files in a directory, as sha256sum(1) prints and checks them. */
export function checksums(directory: string): string {
  const names = readdirSync(directory).sort();
  const sumOf = (name: string) =>
    createHash('sha256')
      .update(readFileSync(join(directory, name)))
      .digest('hex');
  return names.map((name) => `${sumOf(name)}  ${name}\n`).join('');
}
