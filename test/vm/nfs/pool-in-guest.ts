/** Runs in the virtual machine: the contract of pools on NFS, on the kernel's own server. */
import { describeEphemeral } from '../../contract/ephemeral-contract.ts';
import { describePool } from '../../contract/pool-contract.ts';
import { describePublication } from '../../contract/publication-contract.ts';
import { describeSnapshots } from '../../contract/snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from '../../contract/trash-contract.ts';
import { openTestNfs } from '../../support/nfs-pool.ts';
import { describeNfs } from './promises.ts';

const kind = 'pool on NFS';
const poolUnderTest: PoolWithOptions = { content: { type: 'directory' }, open: openTestNfs };

describePool(kind, poolUnderTest);
describeTrash(kind, poolUnderTest);
describeSnapshots(kind, poolUnderTest);
describePublication(kind, poolUnderTest);
describeEphemeral(kind, poolUnderTest);
describeNfs();
