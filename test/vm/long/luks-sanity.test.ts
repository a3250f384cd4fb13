import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { passesSanity } from '../node/sanity.ts';

/** Of these calls csi-sanity has secrets, and gives them to no other: expansion and snapshots need none. */
const calls = ['CreateVolume', 'NodeStageVolume'];
const key = randomBytes(32).toString('base64');
const secrets = calls.map((call) => `${call}Secret:\n  key: ${key}\n`).join('');
const files = { testvolumeparameters: 'encryption: luks2\n', secrets };

describe('csi-sanity, with every volume encrypted by a key from a secret', () => {
  test('against a pool in a volume group', (t) =>
    passesSanity(t, {
      pool: '{ kind: lvm, volumeGroup: vg0, sickAfter: 10m }',
      prepare: 'lvm vgcreate --yes vg0 /dev/vdb',
      files,
    }));
});
