import { CommandError, run } from './run.ts';

/** The words before `multipathd`: into the namespaces of the host, or none. */
export interface MultipathRunner {
  readonly before: readonly string[];
}

/** The program waits 4 s for a daemon that hangs (uxsock_timeout). */
const usualTimeoutMs = 15_000;
/** Its words then, and for a daemon that ends meanwhile. */
const noAnswer = /^(timeout|error -?[0-9]+) (receiving|sending) packet/;

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
  timeoutMs = usualTimeoutMs,
): Promise<string | undefined> {
  const [program, ...rest] = [...before, 'multipathd', ...words];
  try {
    const { stdout } = await run(program ?? '', rest, { accept: [0, 1], environment, timeoutMs });
    const answer = stdout.trim();
    return answer === '' || noAnswer.test(answer) ? undefined : answer;
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
