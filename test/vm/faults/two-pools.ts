import type { NodeSetup } from '../node/start-node.ts';
import { FaultyDisk } from './faulty-disk.ts';

/** The disk of the pool `sick`. */
export const faultyDisk = new FaultyDisk('sick', '/dev/vdc');

export const twoDisks = [
  { name: 'well', sizeGiB: 2 },
  { name: 'sick', sizeGiB: 2 },
];

/** Two pools, each with a disk of its own as its location. */
export const twoPools = {
  config: `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  sick: { device: ${faultyDisk.path} }
`,
  pools: ['well', 'sick'],
  disks: twoDisks,
  prepare: faultyDisk.making,
} satisfies NodeSetup;
