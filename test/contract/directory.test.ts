import { openTestDirectories, openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
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
describeSnapshots('directory pool on an XFS', onXfs);
describePublication('directory pool on an XFS', onXfs);
