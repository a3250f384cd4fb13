import { InvalidArgument } from '../../volume/errors.ts';

/** A path from a caller that is right in itself: absolute, without detours, and below a directory that is allowed. */
export interface TargetPath {
  /** The whole path, in one spelling: without empty and `.` parts, and without a slash at its end. */
  readonly path: string;
  /** The allowed directory it lies under. */
  readonly root: string;
  /** Its parent, seen from `root`; empty if that is the root itself. */
  readonly parent: string;
  readonly name: string;
}

/** The problem with a path. */
export interface PathProblem {
  readonly problem: string;
}

/** Checks a path by its text alone. */
export function checkTargetPath(text: string, roots: readonly string[]): TargetPath | PathProblem {
  if (!text.startsWith('/')) return { problem: 'is not absolute' };
  if (text.includes('\0')) return { problem: 'contains a NUL character' };
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) return { problem: "contains '..'" };
  const path = `/${parts.join('/')}`;
  const root = roots
    .filter((allowed) => path.startsWith(allowed === '/' ? '/' : `${allowed}/`))
    .sort((a, b) => b.length - a.length)[0];
  const name = parts.at(-1);
  if (root === undefined || name === undefined) {
    return { problem: `is not under ${roots.join(' or ')}; HOLDFAST_TARGET_ROOTS adds other directories` };
  }
  const relative = path.slice(root === '/' ? 1 : root.length + 1);
  return { path, root, parent: relative.slice(0, Math.max(0, relative.length - name.length - 1)), name };
}

/** @throws InvalidArgument that names `field` */
export function parseTargetPath(field: string, text: string, roots: readonly string[]): TargetPath {
  const checked = checkTargetPath(text, roots);
  if ('problem' in checked) throw new InvalidArgument(`${field} ${checked.problem}.`);
  return checked;
}

/** A root from the configuration in the spelling that `checkTargetPath` compares with. */
export function normalizeRoot(root: string): string {
  return `/${root
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')}`;
}
