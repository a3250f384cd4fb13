import type { Layout } from '../../../src/volume/layout.ts';
import type { GuestNode } from '../node/guest-node.ts';
import type { Content } from '../node/guest-volume.ts';
import type { NodeSetup } from '../node/start-node.ts';
import type { Sight } from './facts.ts';

export interface SceneUser {
  readonly pool: string;
  readonly contents: readonly Content[];
  readonly encryption?: 'luks2';
  readonly layout?: Layout;
  /** What each volume of the pool has, if it is the pool's only one: then it has no snapshots and does not grow. */
  readonly onlyBytes?: bigint;
}

/** A node whose power is cut, and who uses it. */
export interface PowerScene {
  readonly setup: NodeSetup;
  readonly users: readonly SceneUser[];
  /** A command of the shell after each boot but the first. */
  readonly afterBoot: string;
  /** What the driver shows, and that nothing half done lies in its pools beside that. */
  look(node: GuestNode): Promise<Sight>;
}
