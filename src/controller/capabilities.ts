import type * as wire from '../csi/generated/types.ts';

/**
 * Where a volume grows. `node`: NodeExpandVolume does it all, for one controller cannot reach the disks of every node.
 * `controller`: ControllerExpandVolume comes first, where it can.
 */
export type Expansion = 'node' | 'controller';

const always = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'GET_VOLUME',
  'VOLUME_CONDITION',
  'SINGLE_NODE_MULTI_WRITER',
] as const;

/** What ControllerGetCapabilities answers: exactly what has a handler (G02). */
export function controllerCapabilities(expansion: Expansion): wire.ControllerServiceCapability[] {
  const types = expansion === 'controller' ? ([...always, 'EXPAND_VOLUME'] as const) : always;
  return types.map((type) => ({ rpc: { type } }));
}
