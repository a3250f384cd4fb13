import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { PoolQuarantined } from '../../src/pool/quarantine.ts';
import { openTestDirectories, openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { describeAdoption } from './adoption-contract.ts';
import { describeDirectories } from './directory-contract.ts';
import { describeEphemeral } from './ephemeral-contract.ts';
import { describePool } from './pool-contract.ts';
import { describePublication } from './publication-contract.ts';
import { describeSnapshots } from './snapshot-contract.ts';
import { describeTrash, type PoolWithOptions } from './trash-contract.ts';

const content = { type: 'directory' } as const;
const onXfs: PoolWithOptions = { content, open: openTestDirectoriesOnXfs };

for (const [kind, poolUnderTest] of Object.entries<PoolWithOptions>({
  'directory pool on the host': { content, open: openTestDirectories },
  'directory pool on an XFS': onXfs,
})) {
  describePool(kind, poolUnderTest);
  describeDirectories(kind, poolUnderTest);
  describeTrash(kind, poolUnderTest);
  describeEphemeral(kind, poolUnderTest);
}
describeAdoption('directory pool on the host', { open: openTestDirectories, beside: ({ path }) => path });
describeAdoption('directory pool on an XFS', { ...onXfs, beside: (scratch) => scratch.join('xfs') });
describeSnapshots('directory pool on an XFS', onXfs);
describePublication('directory pool on an XFS', onXfs);

describe('a directory pool that is found to be sick', () => {
  test('GV04: tells that, and no condition of its volumes', async () => {
    using scratch = new Scratch('directories');
    const queue = new DiskQueue('sick', 4);
    const pool = await openTestDirectories(scratch, { queue });
    const { id } = await pool.create(volumeSpec('v', { content }));
    queue.close(new PoolQuarantined('sick', new Date().toISOString(), 'its disk is sick'));
    await assert.rejects(pool.condition(id), PoolQuarantined);
    pool.abandon();
  });
});
