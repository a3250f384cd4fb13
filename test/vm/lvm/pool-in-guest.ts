/**
 * Runs in the virtual machine: the contract of pools in a volume group, on real LVM.
 * node pool-in-guest.ts [thin] DISK…
 */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describeInstantGroups } from '../../contract/instant-groups-contract.ts';
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeIdentities, describeInstantSnapshots, describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { groupFor, guestArguments, openTestLvm } from '../../support/lvm-pool.ts';

const { disks, options: chosen } = guestArguments();
const kind = `LVM pool of ${chosen.thinPool === undefined ? 'linear' : 'thin'} volumes`;
const poolUnderTest: PoolWithOptions = {
  open: (scratch, options) => openTestLvm(scratch, groupFor(scratch, disks), { ...chosen, ...options }),
};

describePool(kind, poolUnderTest);
describeDevices(kind, poolUnderTest);
describeSnapshots(kind, poolUnderTest);
if (chosen.thinPool !== undefined) {
  describeInstantSnapshots(kind, poolUnderTest);
  describeInstantGroups(kind, poolUnderTest);
}
describeIdentities(kind, poolUnderTest);
describeTrash(kind, poolUnderTest);
describePublication(kind, poolUnderTest);
describeEphemeral(kind, poolUnderTest);
