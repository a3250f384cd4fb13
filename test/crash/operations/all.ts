import type { StepName } from '../../../src/volume/step.ts';
import type { Operation } from '../operation.ts';
import { controllerOperations } from './controller.ts';
import { ephemeralOperations } from './ephemeral.ts';
import { nodeOperations } from './node.ts';
import { snapshotOperations } from './snapshots.ts';

export const operations: readonly Operation[] = [
  ...controllerOperations,
  ...snapshotOperations,
  ...nodeOperations,
  ...ephemeralOperations,
];

/** Where an operation is interrupted. */
export function interruptions({ interruptedAt, steps }: Operation): readonly StepName[] {
  return interruptedAt ?? steps;
}
