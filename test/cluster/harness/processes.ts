import { readdirSync, readFileSync } from 'node:fs';

/** What /proc tells of a process. */
export interface ProcessView {
  readonly pid: number;
  readonly commandLine: string;
  /** Its lines of /proc/PID/cgroup: a container's have the identifier of its pod in them. */
  readonly cgroups: string;
}

/** Every process that can be seen and has a command line: not the kernel's own, and no dead ones. */
export function processes(): ProcessView[] {
  return readdirSync('/proc')
    .filter((entry) => /^[0-9]+$/.test(entry))
    .map((pid) => ({
      pid: Number(pid),
      commandLine: processFile(pid, 'cmdline').replaceAll('\0', ' ').trim(),
      cgroups: processFile(pid, 'cgroup'),
    }))
    .filter(({ commandLine }) => commandLine !== '');
}

/** A file of /proc/PID; empty if the process is gone. */
export function processFile(pid: number | string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/** Ends a process at once, if it has not ended already. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended since.
  }
}
