import { basename, dirname, join } from 'node:path';
import type { Rules } from './disk-model.ts';

/** What is on its way, or on its way out: a start clears it away, whatever became of it. */
const passing = /^(tmp|trash)(\/|$)/;
/** Room that is held, whether the disk takes writes, how old the pool is: nothing of a volume's. */
const dispensable = /^(age|ballast|health|spares(\/.*)?|[^/]*\.ballast)$/;

/** Must be whole where they are, but may be gone. */
const templates = /^templates(\/|$)/;

/** What must be durable of a pool. The paths of everything else are not below its root. */
export function poolRules(root: string): Rules {
  const inside = (path: string) => (path.startsWith(`${root}/`) ? path.slice(root.length + 1) : undefined);
  return {
    matters(path) {
      if (path === root) return true;
      const name = inside(path);
      return name !== undefined && (name === 'trash' || !(passing.test(name) || dispensable.test(name)));
    },
    isRelevantEntry(path, change) {
      const name = inside(path);
      if (name === undefined) return false;
      if (dispensable.test(name) || templates.test(name)) return false;
      // What comes to the trash, or back, moves between two directories; what is unlinked there may stay, but not the
      // mark that it can be brought back.
      return !name.startsWith('trash/') || change === 'rename' || basename(name) === 'deleted.json';
    },
    // What can be brought back from the trash.
    isPrecious: (paths) => paths.some((path) => inside(path) !== undefined && basename(path) === 'deleted.json'),
    mustComeBefore(path, change) {
      const name = inside(path) ?? '';
      // Says how much of the copy is durable.
      if (change === 'rename' && basename(name) === 'copy.json') return [join(dirname(path), 'data')];
      // What can be brought back is whole.
      return change !== 'rename' && /^trash\/[^/]+\/(data|volume\.json)$/.test(name) ? [dirname(path)] : [];
    },
  };
}

/** What must be durable beside the pool: the file that it is in, and what its node knows of it. */
export function locationRules(directory: string, { location }: { readonly location: string }): Rules {
  const pools = `${directory}/data/pools`;
  const isKept = (path: string) =>
    path === location || (path.startsWith(`${pools}/`) && /\.(id|formatting)$/.test(path));
  return {
    matters: (path) => isKept(path) || path === directory || path === pools,
    isRelevantEntry: isKept,
    isPrecious: () => false,
    mustComeBefore: () => [],
  };
}
