import type { DevicesPlan } from './measure.ts';

/** In each round every site has its turn with every job, on both disks. */
export const devicesPlans = {
  quick: { rounds: 1, milliseconds: 200 },
  usual: { rounds: 3, milliseconds: 200 },
  full: { rounds: 5, milliseconds: 500 },
} as const satisfies Record<string, DevicesPlan>;
