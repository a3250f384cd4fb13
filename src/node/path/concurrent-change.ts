import { KernelError } from '../../kernel/call/errno.ts';
import { Aborted } from '../../volume/errors.ts';

/** The kernel's errors for a name that has changed since the look at it. */
const signs: ReadonlySet<string> = new Set(['ENOENT', 'EEXIST', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ESTALE']);

/**
 * A readable error, if it came from another program's change of the path during this call. Nothing was done then
 * that the next try does not find: it looks again.
 */
export function asConcurrentChange(error: unknown, path: string): unknown {
  if (!(error instanceof KernelError) || !isAt(error, path)) return error;
  // Not a mount point (any more), umount2(2).
  if (!signs.has(error.code) && !(error.syscall === 'umount2' && error.code === 'EINVAL')) return error;
  return new Aborted(`${path} was changed while this call worked on it; try again.`);
}

/** At the path, in it (a staged device), or on the way there. */
function isAt({ path: where = '' }: KernelError, path: string): boolean {
  return where === path || where.startsWith(`${path}/`) || (where !== '' && path.startsWith(`${where}/`));
}
