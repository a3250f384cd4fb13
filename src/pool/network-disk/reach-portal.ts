import { connect } from 'node:net';
import type { Portal } from './portals.ts';

const timeoutMs = 3_000;

/**
 * Tries whether something listens at a portal: the kernel, or a program, would wait for minutes for one that is away.
 * @returns why it cannot be reached; undefined: it can
 */
export function reachPortal({ address, port }: Portal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port: Number(port) });
    const end = (answer: string | undefined) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => end(`no answer from ${address}:${port} within ${timeoutMs / 1000} s`));
    socket.once('connect', () => end(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) =>
      end(`${address}:${port} cannot be reached (${error.code ?? 'error'}): is the target running there?`),
    );
  });
}

/** Tries the portals of a target together. @returns why not one can be reached; undefined: one can */
export async function reachTarget(portals: readonly Portal[]): Promise<string | undefined> {
  const answers = await Promise.all(portals.map(reachPortal));
  return answers.includes(undefined) ? undefined : `cannot be reached: ${answers.join('; ')}`;
}
