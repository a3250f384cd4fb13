import type * as wire from '../csi/generated/types.ts';

/**
 * The service that grows a volume. `node`: NodeExpandVolume does everything, since one controller cannot reach the
 * disks of every node. `controller`: ControllerExpandVolume comes first, where it can.
 */
export type Expansion = 'node' | 'controller';

/** required: a volume is published to its node before it is staged there. */
export type Attach = 'none' | 'required';

const always = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'GET_VOLUME',
  'VOLUME_CONDITION',
  'SINGLE_NODE_MULTI_WRITER',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
  'GET_SNAPSHOT',
  'MODIFY_VOLUME',
] as const;

const attaching = ['PUBLISH_UNPUBLISH_VOLUME', 'PUBLISH_READONLY', 'LIST_VOLUMES_PUBLISHED_NODES'] as const;

/**
 * The answer of ControllerGetCapabilities: exactly the RPCs that have a handler (G02). It depends on the configuration
 * alone, not on the pools of this node: every node answers the same, and a pool reports in its error what it cannot do.
 */
export function controllerCapabilities(modes: {
  readonly expansion: Expansion;
  readonly attach: Attach;
  readonly hasNoClones?: boolean;
}): wire.ControllerServiceCapability[] {
  const types = [
    ...always,
    ...(modes.hasNoClones === true ? [] : (['CLONE_VOLUME'] as const)),
    ...(modes.expansion === 'controller' ? (['EXPAND_VOLUME'] as const) : []),
    ...(modes.attach === 'required' ? attaching : []),
  ];
  return types.map((type) => ({ rpc: { type } }));
}

/** The answer of GroupControllerGetCapabilities, both of one node and of a fleet. */
export const groupControllerCapabilities: readonly wire.GroupControllerServiceCapability[] = [
  { rpc: { type: 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT' } },
];
