import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';

/** By other signs than the driver's: the type of the mount, and jbd2's directory of an ext4 with a journal. */
export function hasOneJournal(root: string): boolean {
  const find = (field: string) =>
    execFileSync('findmnt', ['-no', field, '--target', root], { encoding: 'utf8' }).trim();
  const type = find('FSTYPE');
  if (type === 'ext4')
    return readdirSync('/proc/fs/jbd2').some((name) => name.startsWith(`${basename(find('SOURCE'))}-`));
  return type === 'xfs';
}
