import { FailedPrecondition } from '../../../volume/errors.ts';

/** The refusal of a pool that requires quota where there is none. */
export function noQuota(name: string, root: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${name}: the filesystem of ${root} enforces no project quota. Mount it with prjquota (docs/directories.md), or set quota: whenAvailable.`,
  );
}
