import { isErrno } from './errno.ts';

/** An error in a sentence for the operator, with what to do where we know. Never a stack trace. */
export function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return isErrno(error, 'EACCES', 'EPERM') ? `${message}. Run it as root.` : message;
}
