import { createInterface } from 'node:readline/promises';

/** Asks the person at the terminal; undefined if there is none. Anything but a yes is a no. */
export async function confirm(question: string): Promise<boolean | undefined> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) return undefined;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-D and Ctrl-C end the input without an answer.
    const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
    const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
