import { openTestDisks } from '../support/disk-pool.ts';
import { describeEphemeral } from './ephemeral-contract.ts';
import { describeDevices, describePool } from './pool-contract.ts';
import { describePublication } from './publication-contract.ts';
import { describeTrash, type PoolWithOptions } from './trash-contract.ts';

const disks: PoolWithOptions = { hasPieces: true, open: openTestDisks };

describePool('disk pool', disks);
describeDevices('disk pool', disks);
describeTrash('disk pool', disks);
describePublication('disk pool', disks);
describeEphemeral('disk pool', disks);
