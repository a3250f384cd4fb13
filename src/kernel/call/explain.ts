import { isErrno } from './errno.ts';

/** An error in a sentence for the operator, with a remedy if we know one. Never a stack trace. */
export function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return isErrno(error, 'EACCES', 'EPERM') ? `${message}. ${refusedRemedy()}` : message;
}

/** root is refused too, if it has not all capabilities, as in most containers. */
function refusedRemedy(): string {
  return process.geteuid?.() === 0
    ? 'It is root, without a capability that this takes: holdfast doctor names it.'
    : 'Run it as root.';
}
