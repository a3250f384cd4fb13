/** The topology key of a node; its value is the node id (Y01). */
export const topologyKey = 'topology.holdfast.dev/node';
