/** The router's knowledge of the nodes; it sends no requests. */

/** A node that has the driver, as Kubernetes or the node itself reports. */
export interface NodeSight {
  /** The name of the node's object in Kubernetes, and its topology segment. */
  readonly name: string;
  /** True if calls can be sent to it now. */
  readonly isLinked: boolean;
  /** True if it has reported everything since its link began. */
  readonly hasTold: boolean;
  /** Pools that are not open, and never were since the driver started: their objects are not in the report. */
  readonly closedPools: readonly { readonly name: string; readonly isOpening: boolean }[];
  /**
   * Start of the present state (no link, incomplete report, or linked with a complete report): milliseconds since 1970.
   */
  readonly sinceMs: number;
}

/** A node that claims an object. */
export interface Owner {
  readonly node: string;
  /** The id derives from the node's name, which is true only for ids that it made. */
  readonly isNative: boolean;
  /** The object is a volume: it has PersistentVolumes, which no node writes. What else it says of the object is the node's word alone. */
  readonly isVolume: boolean;
}

/** The node that a PersistentVolume names; undefined: none, or several. */
export type RecordedNode = string | undefined;

/** An object with a name on a node. */
export interface Named {
  readonly node: string;
  readonly id: string;
}

export interface FleetView {
  /** Every node with the driver, in the order of their names. */
  readonly nodes: readonly NodeSight[];
  /** True if Kubernetes has listed the nodes with the driver. */
  readonly areNodesKnown: boolean;
  node(name: string): NodeSight | undefined;
  /** True if another node than this one has not reported all it has. */
  isAnySilent(besides: string): boolean;
  /** True if an operator has said that the node is gone, and it has no link. */
  isForgotten(name: string): boolean;
  owners(id: string): readonly Owner[];
  /**
   * The nodes of a volume's PersistentVolumes, or the node that a snapshot has gone to by the word of the one that made it, as they were just now;
   * undefined: Kubernetes, or that node, has not been asked.
   */
  recorded(id: string): readonly RecordedNode[] | undefined;
  /** The node that made the object, by its id and the owner's report; undefined: no node that is known or forgotten. */
  originOf(owner: Pick<Owner, 'node'>, id: string): string | undefined;
  /** Answers if a node with an incomplete report, as a pool of it is being opened, has reported this id. */
  isTelling(node: string, id: string): boolean;
  volumesNamed(name: string): readonly Named[];
  snapshotsNamed(name: string): readonly Named[];
  groupsNamed(name: string): readonly Named[];
}
