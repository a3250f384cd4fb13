import { describe, test } from 'node:test';
import { succeedsWithBlankDisks } from '../lvm/devices-guest.ts';

/** Which tests of those in the machine: each part takes some minutes. */
const parts = {
  'are made and extended; no disk that holds anything is written to': '--test-skip-pattern=T03',
  'T03: killed at each step while they are made, they are finished': "--test-name-pattern='T03: .* while it is made'",
  'T03: killed at each step while they grow, they are finished': "--test-name-pattern='T03: .* while it grows'",
} as const;

describe('volume groups of blank disks', () => {
  for (const [name, which] of Object.entries(parts)) {
    test(name, async (t) => t.diagnostic(await succeedsWithBlankDisks(which)));
  }
});
