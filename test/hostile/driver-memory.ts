import { readFileSync, writeFileSync } from 'node:fs';

/** The most memory that a process has had since `forgetPeak`, in MiB (proc_pid_status(5), VmHWM). */
export function peakMebibytes(pid: number): number {
  const kibibytes = /^VmHWM:\s*([0-9]+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kibibytes === undefined) throw new Error(`process ${pid} has no memory`);
  return Math.round(Number(kibibytes) / 1024);
}

/** From now on the peak is what comes (proc_pid_clear_refs(5), 5). */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}
