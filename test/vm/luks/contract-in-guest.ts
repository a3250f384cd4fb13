/**
 * Runs in the virtual machine: the contract of pools of which every volume is encrypted: of image pools below a mount
 * point, or of pools in volume groups on disks.
 * node contract-in-guest.ts /xfs|/ext4|/dev/…
 */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeIdentities, describeInstantSnapshots, describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { groupFor } from '../../support/lvm-pool.ts';
import { encryptingAll, openLvmWithLayer, openWithLayer } from './encrypted-pool.ts';

const [, , place = ''] = process.argv;
const isDisk = place.startsWith('/dev/');
const kind = isDisk ? 'encrypted pool in a volume group' : `encrypted image pool, ${place}`;
const poolUnderTest: PoolWithOptions = {
  open: async (scratch, options) =>
    encryptingAll(
      await (isDisk
        ? openLvmWithLayer(scratch, groupFor(scratch, [place]), options)
        : openWithLayer(place, scratch, options)),
    ),
};

describePool(kind, poolUnderTest);
describeDevices(kind, { ...poolUnderTest, headerBytes: 16n << 20n });
describeSnapshots(kind, poolUnderTest);
describeIdentities(kind, poolUnderTest);
describeTrash(kind, poolUnderTest);
describePublication(kind, poolUnderTest);
describeEphemeral(kind, poolUnderTest);
if (place === '/xfs') describeInstantSnapshots(kind, poolUnderTest);
