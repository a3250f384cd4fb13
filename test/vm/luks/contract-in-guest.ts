/**
 * Runs in the virtual machine: the contract of image pools, of which every volume is encrypted.
 * node contract-in-guest.ts DIRECTORY…
 */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describeDevices, describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeIdentities, describeInstantSnapshots, describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { openEncrypted } from './encrypted-pool.ts';

for (const mountPoint of process.argv.slice(2)) {
  const kind = `encrypted image pool, ${mountPoint}`;
  const poolUnderTest: PoolWithOptions = {
    open: (scratch, options) => openEncrypted(mountPoint, scratch, options),
  };
  describePool(kind, poolUnderTest);
  describeDevices(kind, { ...poolUnderTest, headerBytes: 16n << 20n });
  describeSnapshots(kind, poolUnderTest);
  describeIdentities(kind, poolUnderTest);
  describeTrash(kind, poolUnderTest);
  describePublication(kind, poolUnderTest);
  describeEphemeral(kind, poolUnderTest);
  if (mountPoint === '/xfs') describeInstantSnapshots(kind, poolUnderTest);
}
