import { KernelError } from '../../kernel/call/errno.ts';
import { Aborted } from '../../volume/errors.ts';

/** What the kernel says of a name that is no longer what it was when we looked. */
const signs: ReadonlySet<string> = new Set(['ENOENT', 'EEXIST', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ESTALE']);

/**
 * An error in our words, if it came from somebody else's hand on the path while we worked on it. Nothing was done then
 * that the next try does not find: it looks anew.
 */
export function asConcurrentChange(error: unknown, path: string): unknown {
  if (!(error instanceof KernelError) || !isAt(error, path)) return error;
  // Not a mount point (any more), umount2(2).
  if (!signs.has(error.code) && !(error.syscall === 'umount2' && error.code === 'EINVAL')) return error;
  return new Aborted(`Somebody changed ${path} while this call worked on it; try again.`);
}

/** At the path, in it (a staged device), or on the way there. */
function isAt({ path: where = '' }: KernelError, path: string): boolean {
  return where === path || where.startsWith(`${path}/`) || (where !== '' && path.startsWith(`${where}/`));
}
