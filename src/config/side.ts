import { clusterDriverOf, type PoolConfig } from '../pool/kinds.ts';

/** The parts of a driver whose volumes every node of the cluster can reach. */
export const sides = ['home', 'node', 'both'] as const;

/**
 * home: the one process that has the pools, and makes and deletes volumes; without pools it serves the sidecars for volumes
 * that PersistentVolumes name. node: a process on each node, which mounts them
 * and needs no pools. both: one process for one node. undefined elsewhere: a driver for its node's disks.
 */
export type Side = (typeof sides)[number];

/** Answers if a process with this side mounts volumes that every node can reach. */
export function hasNode(side: Side | undefined): boolean {
  return side === 'node' || side === 'both';
}

/** A configured pool, as far as its side matters. */
export interface SidedPool {
  readonly name: string;
  readonly kind: string;
  /** The name of drivers with such pools, if every node can reach their volumes; undefined: they lie on one node. */
  readonly clusterDriver: string | undefined;
}

export function sidedPool({ kind, name }: PoolConfig): SidedPool {
  return { kind, name, clusterDriver: clusterDriverOf(kind) };
}

/** The name of a driver that has no pools which name one. */
const usualClusterDriver = 'files.holdfast.csi.dev';
const localDriver = 'holdfast.csi.dev';

export interface ChosenSide {
  readonly side: Side | undefined;
  /** Unless HOLDFAST_DRIVER_NAME says otherwise. */
  readonly driverName: string;
}

/**
 * Finds out which part of a driver a process is.
 * @param asked HOLDFAST_SIDE
 * @param pools of the configuration, which one driver can have; undefined: it does not speak of pools
 * @returns the side, or the mistake
 */
export function chooseSide(
  asked: Side | undefined,
  pools: readonly SidedPool[] | undefined,
): ChosenSide | { readonly problem: string } {
  if (asked === 'node') {
    if (pools === undefined) return { side: asked, driverName: usualClusterDriver };
    return { problem: 'HOLDFAST_SIDE: a node needs no pools: leave pools out of HOLDFAST_CONFIG' };
  }
  if (pools?.length === 0) {
    if (asked === 'home') return { side: asked, driverName: usualClusterDriver };
    return {
      problem: 'pools: name at least one pool, or leave the key out; only a home (HOLDFAST_SIDE) may have none',
    };
  }
  const clusterDriver = pools?.find((pool) => pool.clusterDriver !== undefined)?.clusterDriver;
  if (clusterDriver === undefined) {
    if (asked === undefined) return { side: undefined, driverName: localDriver };
    const none = asked === 'home' ? ', or pools: {} if PersistentVolumes name all volumes' : '';
    return {
      problem: `HOLDFAST_SIDE: '${asked}' needs pools that every node can reach: name them in HOLDFAST_CONFIG${none}`,
    };
  }
  return { side: asked ?? 'both', driverName: clusterDriver };
}

/** Returns the reason why one driver cannot have these pools; undefined: it can. */
export function whyNotOneDriver(pools: readonly SidedPool[]): string | undefined {
  const ofCluster = pools.filter(({ clusterDriver }) => clusterDriver !== undefined);
  const local = pools.filter(({ clusterDriver }) => clusterDriver === undefined);
  if (ofCluster.length > 0 && local.length > 0) {
    return `every node can reach pool ${list(ofCluster)}, and pool ${list(local)} lies on this node: one driver cannot have both, so give each its own driver (HOLDFAST_DRIVER_NAME, HOLDFAST_DATA)`;
  }
  const names = [...new Set(pools.map(({ clusterDriver }) => clusterDriver))];
  return names.length > 1
    ? `pools ${list(ofCluster)} are for two drivers (${names.join(', ')}): give each its own`
    : undefined;
}

function list(pools: readonly SidedPool[]): string {
  return pools.map(({ kind, name }) => `${name} (${kind})`).join(', ');
}
