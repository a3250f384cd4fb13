import { describe, test } from 'node:test';
import { succeedsWithBlankDisks } from '../lvm/devices-guest.ts';

/** By the names of tests in the machine: each part takes some minutes. */
const parts = {
  'are made and extended; no disk that holds anything is written to': '^(?!.*T03)',
  'T03: killed at each step while they are made, they are finished': 'T03: .* while it is made',
  'T03: killed at each step while they grow, they are finished': 'T03: .* while it grows',
} as const;

describe('volume groups of blank disks', () => {
  for (const [name, pattern] of Object.entries(parts)) {
    test(name, async (t) => t.diagnostic(await succeedsWithBlankDisks(pattern)));
  }
});
