/** The topology key of a node; its value is the node id (Y01). */
export const topologyKey = 'topology.holdfast.dev/node';

/** The zone of a cloud: the label that Kubernetes has for it. */
export const zoneKey = 'topology.kubernetes.io/zone';

/** The topology of a zone, by each key that nodes have for it. */
export function inZone(keys: readonly string[], zone: string): Readonly<Record<string, string>> {
  return Object.fromEntries(keys.map((key) => [key, zone]));
}
