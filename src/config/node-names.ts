/** Part of a node's name, or `*` for any characters. */
const pattern = /^[A-Za-z0-9*]([-A-Za-z0-9_.*]*[A-Za-z0-9*])?$/;

/** Returns the mistake in the node name or pattern of a section; undefined if there is none. */
export function unfitNames(names: string): string | undefined {
  if (/^\*+$/.test(names)) return 'settings for all nodes belong at the top of the file';
  if (pattern.test(names)) return undefined;
  return 'must be the name of a node, or of several with * for any characters, such as db-*';
}

/** Answers if a section is for this node. */
export function isFor(names: string, nodeId: string): boolean {
  const words = names.split('*').map((word) => word.replaceAll('.', '\\.'));
  return unfitNames(names) === undefined && new RegExp(`^${words.join('.*')}$`).test(nodeId);
}

/** Chooses the section for a node: its exact name takes precedence over any pattern. */
export function chooseSection(
  found: readonly string[],
  nodeId: string,
): { readonly names: string | undefined } | { readonly undecided: readonly [string, string] } {
  const [first, second] = found;
  if (found.includes(nodeId)) return { names: nodeId };
  return first === undefined || second === undefined ? { names: first } : { undecided: [first, second] };
}
