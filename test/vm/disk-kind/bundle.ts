import { bundlePrograms } from '../machine/bundle.ts';

const programs = [
  'pool-in-guest',
  'refusals-in-guest',
  'crash-in-guest',
  'adoption-in-guest',
  'later-in-guest',
  'killed-driver',
  'move-in-guest',
  'move-killed-in-guest',
  'killed-mover',
];

/** @returns the directory of what runs in the virtual machine */
export function bundleForGuest(): Promise<string> {
  return bundlePrograms('disk-kind', programs);
}
