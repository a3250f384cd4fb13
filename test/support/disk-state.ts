import { readFileSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { shell } from './disk-pool.ts';

/** All of its bytes, as they are on the disk: what memory has of it is on it then. */
export function digestOf(device: string): string {
  shell(`blockdev --flushbufs ${device}`);
  return shell(`sha256sum < ${device}`);
}

/** All of its bytes, and how often it was written to. */
export function stateOf(device: string): { readonly digest: string; readonly writes: string } {
  const digest = digestOf(device);
  const fields = readFileSync(`/sys/block/${basename(realpathSync(device))}/stat`, 'utf8')
    .trim()
    .split(/\s+/);
  return { digest, writes: fields[4] ?? '' };
}
