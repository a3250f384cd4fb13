import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Exit } from './frames.ts';
import { type Link, MachineGone } from './link.ts';

/** How a command ended, and what it said. */
export interface Outcome extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

/** A killed process ends at once, unless the kernel keeps it, or the whole machine hangs. */
const killPatienceMs = 30_000;

/** Has the agent run a command of the shell. */
export function runCommand(link: Link, command: string, timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    const channel = link.open(
      { type: 'run', command },
      {
        output: (bytes) => stdout.push(bytes),
        error: (bytes) => stderr.push(bytes),
        done: (result) => {
          clearTimeout(timer);
          const exit: Exit = JSON.parse(result.toString());
          resolve({ ...exit, stdout: text(stdout), stderr: text(stderr) });
        },
        cut: () => {
          clearTimeout(timer);
          reject(new MachineGone(`the virtual machine went away during: ${command}`));
        },
      },
    );
    let timer = setTimeout(() => {
      channel.end();
      timer = setTimeout(
        () =>
          reject(
            new Error(`the virtual machine does not answer. It was to end, after ${timeoutMs / 1000} s: ${command}`),
          ),
        killPatienceMs,
      );
    }, timeoutMs);
  });
}

/** A command that runs until it is killed, or the machine is. */
export interface RunningCommand {
  /** Undefined as long as it runs. */
  readonly ending: Exit | undefined;
  readonly ended: Promise<void>;
  kill(): void;
  /** The end of what it and those before it have written to the same log. */
  lastWords(): string;
}

const lastBytes = 4000;
const gone: Exit = { code: null, signal: 'the machine went away' };

/** Has the agent start a command of the shell; what it says goes to a file of this machine. */
export function startCommand(link: Link, command: string, logPath: string): RunningCommand {
  const log = openSync(logPath, 'a');
  let ending: Exit | undefined;
  let settle: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    settle = resolve;
  });
  const end = (exit: Exit) => {
    ending = exit;
    closeSync(log);
    settle();
  };
  const channel = link.open(
    { type: 'run', command },
    {
      output: (bytes) => writeSync(log, bytes),
      error: (bytes) => writeSync(log, bytes),
      done: (result) => end(JSON.parse(result.toString())),
      cut: () => end(gone),
    },
  );
  return {
    get ending() {
      return ending;
    },
    ended,
    kill: () => channel.end(),
    lastWords: () => readFileSync(logPath, 'utf8').slice(-lastBytes),
  };
}

function text(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString();
}
