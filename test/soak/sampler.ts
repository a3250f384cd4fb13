import { readdirSync, readFileSync } from 'node:fs';

/** What the driver took at one moment. */
export interface Sample {
  /** Since the soak began. */
  readonly atMs: number;
  readonly residentBytes: number;
  readonly anonymousBytes: number;
  readonly descriptors: number;
  readonly threads: number;
}

/** Reads a process' memory and descriptors from /proc; undefined if it is gone. */
export function takeSample(pid: number, atMs: number): Sample | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * 1024;
    return {
      atMs,
      residentBytes: kibibytes('VmRSS'),
      anonymousBytes: kibibytes('RssAnon'),
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      threads: readdirSync(`/proc/${pid}/task`).length,
    };
  } catch {
    // It was killed while it was looked at.
    return undefined;
  }
}
