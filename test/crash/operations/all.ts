import type { Operation } from '../operation.ts';
import { controllerOperations } from './controller.ts';
import { directoryOperations } from './directories.ts';
import { ephemeralOperations } from './ephemeral.ts';
import { nodeOperations } from './node.ts';
import { snapshotOperations } from './snapshots.ts';

/** Everything that a driver can be killed in, but for its own start. */
export const operations: readonly Operation[] = [
  ...controllerOperations,
  ...snapshotOperations,
  ...nodeOperations,
  ...ephemeralOperations,
  ...directoryOperations,
];
