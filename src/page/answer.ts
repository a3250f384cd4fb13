import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

/** Lines of an answer, for the output of results or of problems; then the exit code of the command. */
export interface Answer {
  readonly lines: Iterable<{ readonly to: 'result' | 'problem'; readonly text: string }>;
  readonly exitCode: number;
}

const pieceCharacters = 64 * 1024;
const marks = { result: '1', problem: '2' } as const;

/**
 * Sends the output of a command: `1` and `2` before the lines of its two outputs, `x` before its exit code at the end.
 */
export async function sendAnswer(
  response: ServerResponse,
  status: number,
  { exitCode, lines }: Answer,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(status === 200 ? {} : { connection: 'close' }),
  });
  let piece = '';
  for (const { text, to } of lines) {
    piece += `${marks[to]}${text}\n`;
    if (piece.length < pieceCharacters) continue;
    if (!response.write(piece)) await once(response, 'drain', { signal });
    piece = '';
  }
  response.end(`${piece}x${exitCode}\n`);
  // Unread output is still in memory.
  if (!response.closed) await once(response, 'close');
}
