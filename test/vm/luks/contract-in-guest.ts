/**
 * Runs in the virtual machine: the contract of pools of which every volume is encrypted: of image pools below a mount
 * point, or of pools in volume groups on disks, of thin volumes if wanted.
 * node contract-in-guest.ts /xfs|/ext4|/dev/… [thin]
 */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describeInstantGroups } from '../../contract/instant-groups-contract.ts';
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeIdentities, describeInstantSnapshots, describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { groupFor, guestArguments } from '../../support/lvm-pool.ts';
import { encryptingAll, openLvmWithLayer, openWithLayer } from './encrypted-pool.ts';

const [, , place = ''] = process.argv;
const { disks, options: chosen } = guestArguments();
const isThin = chosen.thinPool !== undefined;
const kind =
  disks.length === 0 ? `encrypted image pool, ${place}` : `encrypted pool of ${isThin ? 'thin' : 'linear'} volumes`;
const poolUnderTest: PoolWithOptions = {
  open: async (scratch, options) =>
    encryptingAll(
      await (disks.length === 0
        ? openWithLayer(place, scratch, options)
        : openLvmWithLayer(scratch, groupFor(scratch, disks), { ...chosen, ...options })),
    ),
};

describePool(kind, poolUnderTest);
describeDevices(kind, { ...poolUnderTest, headerBytes: 16n << 20n });
describeSnapshots(kind, poolUnderTest);
describeIdentities(kind, poolUnderTest);
describeTrash(kind, poolUnderTest);
describePublication(kind, poolUnderTest);
describeEphemeral(kind, poolUnderTest);
if (place === '/xfs' || isThin) describeInstantSnapshots(kind, poolUnderTest);
if (isThin) describeInstantGroups(kind, poolUnderTest);
