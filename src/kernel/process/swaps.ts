import type { DiskQueue } from '../call/disk-queue.ts';
import { readIfThere } from '../file/file.ts';

/** Paths of the devices and files that the kernel swaps to, as they were given (proc(5), /proc/swaps). */
export async function swapPaths(queue: DiskQueue): Promise<string[]> {
  const text = (await readIfThere(queue, '/proc/swaps')) ?? '';
  return parseSwaps(text);
}

/** The first line has titles. Spaces in a path are escaped, as is the suffix of removed files. */
export function parseSwaps(text: string): string[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => /^\S+/.exec(line)?.[0] ?? [])
    .map((path) => path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))));
}
