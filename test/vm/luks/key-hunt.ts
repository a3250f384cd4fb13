import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { Scratch } from '../../support/scratch.ts';

const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';

/** A key of a Secret whose bytes can be looked for in text as well: letters and digits by chance. */
export function newFindableKey(): string {
  const bytes = [...randomBytes(48)].map((byte) => alphabet[byte % alphabet.length]);
  return Buffer.from(bytes.join('')).toString('base64');
}

/** All the ways in which a key could be written down. */
function formsOf(key: string): string[] {
  const bytes = Buffer.from(key, 'base64');
  return [key, bytes.toString('latin1'), bytes.toString('hex'), bytes.toString('base64url'), btoa(key)];
}

/** Looks for keys in texts, by their names, and in files of any size. */
export function assertNowhere(
  keys: readonly string[],
  texts: Readonly<Record<string, string>>,
  scratch: Scratch,
  files: readonly string[],
): void {
  const forms = keys.flatMap(formsOf);
  for (const [name, text] of Object.entries(texts)) {
    assert.ok(!forms.some((form) => text.includes(form)), `${name} has a key in it`);
  }
  const patterns = scratch.join('forms');
  writeFileSync(patterns, forms.join('\n'));
  assert.notEqual(linesWith(patterns, patterns), 0, 'nothing is ever found');
  for (const file of files) assert.equal(linesWith(patterns, file), 0, `${file} has a key in it`);
}

/** Lines that end with a zero byte: a disk is full of those. */
function linesWith(patterns: string, file: string): number {
  const args = ['--null-data', '--text', '--fixed-strings', '--count', `--file=${patterns}`, file];
  try {
    return Number(execFileSync('grep', args, { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } }));
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 1) return 0;
    throw error;
  }
}
