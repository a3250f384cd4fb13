import { describe, test } from 'node:test';
import { type Kind, kinds, ownersInGuest } from '../old-data/guest.ts';

const owners = Number(process.env['HOLDFAST_TEST_OWNERS'] ?? 1000);
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
/** A disk is wiped as a whole, each time. */
const shares: Record<Kind, number> = { lvm: 1, thin: 1, disk: 0.2 };

describe(`nobody reads what was another one's (HOLDFAST_TEST_SEED=${seed} repeats the choices)`, () => {
  for (const kind of kinds) {
    test(`in a pool of the kind ${kind}`, async (t) => {
      await ownersInGuest({ [kind]: Math.ceil(owners * shares[kind]) }, seed, (words) => t.diagnostic(words));
    });
  }
});
