import { createHash } from 'node:crypto';

/** The name of a node in its certificate: those of nodes are too long for one, and are no host names of ours. */
export function peerName(node: string): string {
  return `${createHash('sha256').update(node).digest('hex').slice(0, 40)}.node.holdfast.internal`;
}

/** The certificate that a node shows to other nodes, and the authorities that it believes them by: PEM. */
export interface NodeIdentity {
  readonly certificate: string;
  readonly key: string;
  readonly authorities: string;
}
