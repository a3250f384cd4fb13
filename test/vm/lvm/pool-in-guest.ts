/**
 * Runs in the virtual machine: the contract of pools in a volume group, on real LVM.
 * node pool-in-guest.ts DISK…
 */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeIdentities, describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { groupFor, openTestLvm } from '../../support/lvm-pool.ts';

const [, , ...disks] = process.argv;
const kind = 'LVM pool of linear volumes';
const poolUnderTest: PoolWithOptions = {
  open: (scratch, options) => openTestLvm(scratch, groupFor(scratch, disks), options),
};

describePool(kind, poolUnderTest);
describeDevices(kind, poolUnderTest);
describeSnapshots(kind, poolUnderTest);
describeIdentities(kind, poolUnderTest);
describeTrash(kind, poolUnderTest);
describePublication(kind, poolUnderTest);
describeEphemeral(kind, poolUnderTest);
