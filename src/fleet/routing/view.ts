import type { GroupId, SnapshotId, VolumeId } from '../../volume/id.ts';

/** What the router knows of the nodes; it asks nobody. */

/** A node that has the driver, by what Kubernetes or the node itself says. */
export interface NodeSight {
  /** As the node's object in Kubernetes, and its topology segment. */
  readonly name: string;
  /** Whether calls can be sent to it now. */
  readonly isLinked: boolean;
  /** Whether it has told all that it has since its link is there. */
  readonly hasTold: boolean;
  /** Pools of it that are not open, and never were since its driver started: what they have it cannot tell. */
  readonly closedPools: readonly { readonly name: string; readonly isOpening: boolean }[];
  /** Since when it is not linked or has not told all, or is there with all: milliseconds since 1970. */
  readonly sinceMs: number;
}

/** Something that a node says it has. */
export interface Owner {
  readonly node: string;
  /** The id derives from the node's own name, which no other node can say of its ids. */
  readonly isNative: boolean;
}

/** What a name stands for on a node. */
export interface Named {
  readonly node: string;
  readonly id: string;
}

export interface FleetView {
  /** Every node with the driver, in the order of their names. */
  readonly nodes: readonly NodeSight[];
  /** Whether Kubernetes has said which nodes have the driver. */
  readonly areNodesKnown: boolean;
  node(name: string): NodeSight | undefined;
  owners(id: string): readonly Owner[];
  /** The node that made it, by its id and by what the owner says of it; undefined: none that is known or forgotten. */
  originOf(owner: Pick<Owner, 'node'>, id: string): string | undefined;
  /** Whether a node that has not told all yet, as a pool of it is being opened, has told of this. */
  isTelling(node: string, id: string): boolean;
  volumesNamed(name: string): readonly Named[];
  snapshotsNamed(name: string): readonly Named[];
  groupsNamed(name: string): readonly Named[];
}

export type ObjectId = VolumeId | SnapshotId | GroupId;
