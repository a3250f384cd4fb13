import { bundlePrograms } from '../machine/bundle.ts';

const programs = [
  'adoption-in-guest',
  'by-hand-in-guest',
  'changes-in-guest',
  'crash-in-guest',
  'devices-driver',
  'devices-in-guest',
  'killed-driver',
  'killed-lvm-in-guest',
  'killed-mover',
  'layouts-in-guest',
  'mirrors-in-guest',
  'moves-killed-in-guest',
  'older-in-guest',
  'pool-in-guest',
  'processes-in-guest',
  'thin-in-guest',
  'thin-trouble-in-guest',
];

/** @returns the directory of what runs in the virtual machine */
export function bundleForGuest(): Promise<string> {
  return bundlePrograms('lvm', programs);
}
