import { type ExecFileOptions, execFile } from 'node:child_process';

interface RunOptions extends Pick<ExecFileOptions, 'cwd' | 'env'> {
  readonly input?: string;
  readonly timeoutMs?: number;
}

/** Runs a program; what it wrote to standard output. If it fails, the error has its words. */
export function runToEnd(
  program: string,
  parameters: readonly string[],
  { input, timeoutMs = 0, ...options }: RunOptions = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...parameters],
      { ...options, maxBuffer: 256 * 1024 * 1024, timeout: timeoutMs, killSignal: 'SIGKILL' },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new CommandError([program, ...parameters].join(' '), error, stdout, stderr));
      },
    );
    // A program that ends without reading its input has its own words for that.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input ?? '');
  });
}

/** A program that failed. */
export class CommandError extends Error {
  readonly stdout: string;
  readonly stderr: string;

  constructor(command: string, cause: Error & { code?: unknown; signal?: unknown }, stdout: string, stderr: string) {
    const words = stderr.trim() || stdout.trim() || cause.message;
    super(`${command.slice(0, 300)}: ${words.slice(-4000)} (${cause.signal ?? `exit code ${cause.code}`})`);
    this.name = 'CommandError';
    this.stdout = stdout;
    this.stderr = stderr;
  }
}

/** The path of a program that is in PATH. */
export async function programPath(name: string): Promise<string> {
  return (await runToEnd('sh', ['-c', 'command -v "$0"', name])).trim();
}
