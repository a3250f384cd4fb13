import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { eventually } from './eventually.ts';

/**
 * Put before a program: it does not outlive whoever started it, however that ends (PR_SET_PDEATHSIG of prctl(2)). The
 * process keeps its id, as setpriv(1) becomes the program.
 */
export const whileWeLive: readonly string[] = ['setpriv', '--pdeathsig', 'KILL'];

const live = new Set<ChildProcess>();

/** Starts a program that ends with us. */
export function spawnWithUs(command: readonly string[], options: SpawnOptions): ChildProcess {
  const [program = '', ...args] = [...whileWeLive, ...command];
  const child = spawn(program, args, options);
  live.add(child);
  child.once('exit', () => live.delete(child));
  return child;
}

/** Kills all of them, without waiting: before what they use is cleared away. */
export function killChildren(): void {
  for (const child of live) child.kill('SIGKILL');
}

export interface ChildOptions {
  readonly cwd?: string;
  /** What it reads: a descriptor, or a pipe that stays open. */
  readonly stdin?: number | 'pipe';
  /** Ready when it has written something; else as soon as the last program of its command runs. */
  readonly tells?: boolean;
  /** What runs in the end, if it is not the first word of the command. */
  readonly becomes?: string;
}

/** A process that a test starts for it to hold or to use something; killed on disposal, and with the test. */
export class Child implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Starts a program and waits until it is ready. */
  static async start(command: readonly string[], options: ChildOptions = {}): Promise<Child> {
    const stdio = [options.stdin ?? 'ignore', 'pipe', 'inherit'] as const;
    const process = spawnWithUs(command, { cwd: options.cwd, stdio: [...stdio] });
    const child = new Child(process);
    const output = process.stdout ?? process;
    if (options.tells === true) await Promise.race([once(output, 'data'), once(process, 'exit')]);
    else await eventually(() => child.#is(options.becomes ?? command[0] ?? ''));
    if (child.hasEnded) throw new Error(`${command[0]} ended before it was ready`);
    return child;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Its standard input comes to an end, after a last line if there is one. */
  endInput(line = ''): void {
    this.#child.stdin?.end(line);
  }

  async ended(): Promise<void> {
    if (!this.hasEnded) await once(this.#child, 'exit');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended();
  }

  #is(program: string): void {
    if (this.hasEnded) return;
    const name = readFileSync(`/proc/${this.pid}/comm`, 'utf8').trim();
    // The kernel keeps 15 characters.
    if (name !== basename(program).slice(0, 15)) throw new Error(`${name} has not become ${program}`);
  }
}

/**
 * A process (sleep) in a mount namespace of its own. Of what is mounted it keeps what is at or below `path`, and hears
 * of no mount or unmount that comes later.
 */
export function startNamespace(path: string, cwd = '/'): Promise<Child> {
  return Child.start(['python3', '-c', namespaceProgram, path], { cwd, becomes: 'sleep' });
}

/*
 * A new namespace has every mount that other tests have at the time, and would keep their devices busy: all but what is
 * asked for and the system's own is let go at once, in the same process, so that nobody notices. Values of unshare(2),
 * mount(2) and umount2(2).
 */
const namespaceProgram = `
import ctypes, os, re, sys
CLONE_NEWNS, MS_PRIVATE_REC, MNT_DETACH = 0x20000, 0x44000, 2
kept = sys.argv[1] + '/'
system = ('/proc/', '/sys/', '/dev/')
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result != 0: raise OSError(ctypes.get_errno(), 'unshare or mount')
check(libc.unshare(CLONE_NEWNS))
check(libc.mount(None, b'/', None, MS_PRIVATE_REC, None))
for line in reversed(open('/proc/self/mountinfo').readlines()):
    target = re.sub(r'\\\\([0-7]{3})', lambda code: chr(int(code[1], 8)), line.split(' ')[4])
    if kept.startswith(target.rstrip('/') + '/') or (target + '/').startswith((kept, *system)): continue
    libc.umount2(os.fsencode(target), MNT_DETACH)
os.execvp('sleep', ['sleep', '600'])
`;

/*
 * First words of a shell script that unshare(1) runs in a new mount namespace: they let go of the copies of mounted loop
 * devices, which other tests could not detach for as long as the script runs.
 */
export const withoutOthersLoops = [
  'others=; while read -r _ _ _ _ target rest; do',
  `case "\${rest##* - }" in *" /dev/loop"*) others="$target $others" ;; esac`,
  'done </proc/self/mountinfo; [ -z "$others" ] || umount --lazy $others || :',
].join('\n');
