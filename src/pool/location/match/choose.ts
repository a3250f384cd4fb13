import { FailedPrecondition } from '../../../volume/errors.ts';
import { twoSections } from './criteria.ts';

/** A disk that the match of a pool fits. */
export interface Candidate {
  readonly path: string;
  readonly identity: string | undefined;
  /** Reasons why it is not free; empty: it is. */
  readonly reasons: readonly string[];
  /** Its content, if it is not in use and a pool of this kind could lie on that: it may be this pool's, from before. */
  readonly mayBeOwn: string | undefined;
  /** Other sections that match it. */
  readonly rivals: readonly string[];
}

export interface Chosen {
  readonly path: string;
  readonly identity: string;
}

const nothing = 'Nothing was changed (docs/disks.md).';

/**
 * The one disk for a pool that is new here: the only one that matches and is free. If it is not clear which one is meant, none.
 * @param match in the words of the configuration @throws FailedPrecondition
 */
export function chooseFree(poolName: string, match: string, candidates: readonly Candidate[]): Chosen {
  const refusal = (reason: string) => new FailedPrecondition(`pool ${poolName}: ${reason}`);
  if (candidates.length === 0) {
    throw refusal(`no disk of this node matches (${match}). holdfast disks shows those that are there.`);
  }
  const own = candidates.find(({ mayBeOwn }) => mayBeOwn !== undefined);
  if (own !== undefined) {
    throw refusal(
      `${own.path} matches and holds ${own.mayBeOwn}: it may be the disk that this pool had. If it is, name it with device; otherwise clear it, or change match. ${nothing}`,
    );
  }
  const free = candidates.filter(({ reasons }) => reasons.length === 0);
  const [chosen, second] = free;
  if (chosen === undefined) {
    const each = candidates.map(({ path, reasons }) => `${path}: ${reasons.join('; ')}`);
    throw refusal(`no disk that matches is free: ${each.join('. ')}. ${nothing}`);
  }
  if (second !== undefined) {
    const paths = free.map(({ path }) => path).join(' and ');
    throw refusal(
      `${paths} match and are free, and the pool has one disk: change match, or name one with device. ${nothing}`,
    );
  }
  const { identity, path, rivals } = chosen;
  if (rivals.length > 0) {
    throw refusal(`${path} cannot be taken: ${twoSections([poolName, ...rivals])}. ${nothing}`);
  }
  if (identity === undefined) throw refusal(`${path} cannot be taken: it has no serial number. ${nothing}`);
  return { path, identity };
}
