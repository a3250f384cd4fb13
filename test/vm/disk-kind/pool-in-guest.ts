/**
 * Runs in the virtual machine: the contract of pools of a disk, with sectors of 512 and of 4096 bytes.
 * node pool-in-guest.ts NAME=DEVICE…
 */
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { diskFor, guestDisks, openTestDisk } from '../../support/disk-pool.ts';

for (const name of ['usual', 'large-sectors']) {
  const kind = `disk (${name})`;
  const device = guestDisks().get(name) ?? '';
  const underTest: PoolWithOptions = {
    open: (scratch, options) => openTestDisk(scratch, diskFor(scratch, device), options),
    isOneVolume: true,
  };
  describeDevices(kind, underTest);
  // What lies in volumes knows nothing of the label.
  if (name !== 'usual') continue;
  describePool(kind, underTest);
  describeTrash(kind, underTest);
  describePublication(kind, underTest);
}
