import type { Mutant } from './mutant.ts';
import { checkMutants } from './table/checks.ts';
import { durabilityMutants } from './table/durability.ts';
import { freezeMutants } from './table/freeze.ts';
import { lockMutants } from './table/locks.ts';
import { redactionMutants } from './table/redaction.ts';

export const mutants: readonly Mutant[] = [
  ...durabilityMutants,
  ...freezeMutants,
  ...lockMutants,
  ...checkMutants,
  ...redactionMutants,
];
