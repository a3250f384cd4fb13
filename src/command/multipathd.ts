import { CommandError, run } from './run.ts';

/** The words before `multipathd`: into the namespaces of the host, or none. */
export interface MultipathRunner {
  readonly before: readonly string[];
}

/** The program waits 4 s for the daemon (uxsock_timeout), and prints nothing if that hangs. */
const timeoutMs = 15_000;

/** Directories of Debian and of others: in the driver's container PATH is that of the image. */
const environment = { PATH: '/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin' };

/**
 * Gives multipathd(8) one command, as its administrator does. Versions differ in their exit codes and words, so callers look
 * at what it did.
 * @returns its words; undefined: it did not answer
 */
export async function askMultipathd(
  { before }: MultipathRunner,
  words: readonly [string, ...string[]],
): Promise<string | undefined> {
  const [program, ...rest] = [...before, 'multipathd', ...words];
  try {
    const { stdout } = await run(program ?? '', rest, { accept: [0, 1], environment, timeoutMs });
    return stdout.trim() === '' ? undefined : stdout.trim();
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
