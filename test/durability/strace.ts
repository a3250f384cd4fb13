import { resolve } from 'node:path';
import type { DiskEvent } from './disk-event.ts';

/** A system call that has returned. */
export interface SystemCall {
  readonly name: string;
  /** As strace(1) writes them, with the paths of descriptors. */
  readonly arguments: string;
  readonly result: string;
  /** When it began, in seconds since the epoch. */
  readonly time: number;
  /** Lines of the trace at which it began and returned. */
  readonly start: number;
  readonly end: number;
}

const traced = [
  'openat,openat2,creat,write,writev,pwrite64,pwritev,pwritev2,copy_file_range,sendfile,ftruncate,truncate,fallocate',
  'ioctl,fsync,fdatasync,syncfs,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat',
];

/**
 * Put before a program: writes what it and all that it starts tell the kernel about files. The program keeps the
 * process id, as strace becomes a process of its own (-D).
 */
export function straced(traceFile: string): string[] {
  const what = ['-e', `trace=${traced.join(',')}`, '-e', 'signal=KILL'];
  return ['strace', '-D', '-f', '--seccomp-bpf', '-y', '-ttt', '-s', '0', ...what, '-A', '-o', traceFile];
}

const whole = /^(?<pid>\d+) +(?<time>[0-9.]+) (?<name>\w+)\((?<args>.*)\) += (?<result>.*)$/;
const begun = /^(?<pid>\d+) +(?<time>[0-9.]+) (?<name>\w+)\((?<args>.*) <unfinished \.\.\.>$/;
const resumed = /^(?<pid>\d+) +[0-9.]+ <\.\.\. \w+ resumed>(?<args>.*)\) += (?<result>.*)$/;

/** Reads what strace has written. */
export function parseTrace(text: string): SystemCall[] {
  const calls: SystemCall[] = [];
  const open = new Map<string, Omit<SystemCall, 'result' | 'end'>>();
  for (const [line, words] of text.split('\n').entries()) {
    const at = line + 1;
    const found = whole.exec(words)?.groups ?? begun.exec(words)?.groups ?? resumed.exec(words)?.groups;
    if (found === undefined) continue;
    const { args = '', name, pid = '', result, time } = found;
    if (name === undefined) {
      const call = open.get(pid);
      open.delete(pid);
      if (call !== undefined) calls.push({ ...call, arguments: call.arguments + args, result: result ?? '', end: at });
      continue;
    }
    const call = { name, arguments: args, time: Number(time), start: at };
    if (result === undefined) open.set(pid, call);
    else calls.push({ ...call, result, end: at });
  }
  return calls;
}

/** What the calls did to files. Those that failed did nothing. */
export function diskEvents(calls: readonly SystemCall[]): DiskEvent[] {
  /** How a path was last opened for writing. */
  const durable = new Map<string, boolean>();
  return calls
    .filter(({ result }) => !result.startsWith('-1') && !result.startsWith('?'))
    .flatMap((call) => {
      const { arguments: args, name, start, end } = call;
      const at = { start, end };
      const events: DiskEvent[] = [];
      switch (name) {
        case 'openat':
        case 'openat2': {
          const path = descriptorOf(call.result);
          if (path === undefined || !/O_WRONLY|O_RDWR/.test(args)) break;
          durable.set(path, /\bO_D?SYNC\b/.test(args));
          events.push({ ...at, kind: 'open', path, isCreated: /\bO_CREAT\b/.test(args) });
          if (/\bO_TRUNC\b/.test(args))
            events.push({ ...at, kind: 'write', path, isDurable: durable.get(path) === true });
          break;
        }
        case 'fsync':
        case 'fdatasync': {
          const path = descriptorOf(args);
          if (path !== undefined) events.push({ ...at, kind: 'sync', path });
          break;
        }
        case 'sync_file_range': {
          const path = descriptorOf(args);
          if (path !== undefined && /WAIT_AFTER/.test(args)) events.push({ ...at, kind: 'write-out', path });
          break;
        }
        case 'syncfs': {
          const path = descriptorOf(args);
          if (path !== undefined) events.push({ ...at, kind: 'sync-all', path });
          break;
        }
        // A second name: the first one goes a moment later.
        case 'link':
        case 'linkat':
        case 'rename':
        case 'renameat':
        case 'renameat2': {
          const [from, to] = pathsOf(args);
          if (from !== undefined && to !== undefined) events.push({ ...at, kind: 'rename', from, to });
          break;
        }
        case 'unlink':
        case 'unlinkat':
        case 'rmdir':
          for (const path of pathsOf(args)) events.push({ ...at, kind: 'remove', path });
          break;
        case 'mkdir':
        case 'mkdirat':
          for (const path of pathsOf(args)) events.push({ ...at, kind: 'make', path });
          break;
        default: {
          const path = writtenBy(name, args);
          if (path !== undefined) events.push({ ...at, kind: 'write', path, isDurable: durable.get(path) === true });
        }
      }
      return events;
    });
}

/** The file whose content or size a call changes; undefined for one that does not, or that only gives blocks back. */
function writtenBy(name: string, args: string): string | undefined {
  switch (name) {
    case 'ioctl':
      // FICLONE shares the blocks of another file; older versions of strace know it by its first name.
      return /FICLONE|BTRFS_IOC_CLONE/.test(args) ? descriptorOf(args) : undefined;
    case 'fallocate':
      return /FALLOC_FL_PUNCH_HOLE/.test(args) ? undefined : descriptorOf(args);
    case 'copy_file_range':
      return [...args.matchAll(/\d+<([^>]*)>/g)][1]?.[1];
    case 'truncate':
      return pathsOf(args)[0];
    case 'write':
    case 'writev':
    case 'pwrite64':
    case 'pwritev':
    case 'pwritev2':
    case 'sendfile':
    case 'ftruncate':
      return descriptorOf(args);
    default:
      return undefined;
  }
}

/** `24</path>` at its beginning. */
function descriptorOf(text: string): string | undefined {
  return /^\d+<(\/[^>]*)>/.exec(text)?.[1];
}

/** Paths in quotes, each beside the directory that it is relative to, if that is named. */
function pathsOf(args: string): string[] {
  return [...args.matchAll(/(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"/g)].map(([, base = '/', path = '']) =>
    resolve(base, path),
  );
}
