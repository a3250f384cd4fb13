import assert from 'node:assert/strict';
import type * as wire from '../../../src/csi/generated/types.ts';
import type { GuestNode } from '../node/guest-node.ts';

/** What can still be had of a pool. */
export async function capacityBytes(node: GuestNode, pool: string): Promise<bigint> {
  return (await node.client.controller.GetCapacity({ parameters: { pool } })).available_capacity;
}

/** What the controller says of a volume. */
export async function conditionOf(node: GuestNode, volume_id: string): Promise<wire.VolumeCondition> {
  const { status } = await node.client.controller.ControllerGetVolume({ volume_id });
  return status?.volume_condition ?? assert.fail('no condition');
}
