/** Part of a node's name, or `*` for any characters. */
const pattern = /^[A-Za-z0-9*]([-A-Za-z0-9_.*]*[A-Za-z0-9*])?$/;

/** What is wrong with the names that a section of the file is for; undefined if nothing is. */
export function unfitNames(names: string): string | undefined {
  if (/^\*+$/.test(names)) return 'what is for all nodes stands at the top of the file';
  if (pattern.test(names)) return undefined;
  return 'must be the name of a node, or of several with * for any characters, such as db-*';
}

/** Whether a section is for this node. */
export function isFor(names: string, nodeId: string): boolean {
  const words = names.split('*').map((word) => word.replaceAll('.', '\\.'));
  return unfitNames(names) === undefined && new RegExp(`^${words.join('.*')}$`).test(nodeId);
}

/** The section for a node, among those that are for it: its own name stands before any pattern. */
export function chooseSection(
  found: readonly string[],
  nodeId: string,
): { readonly names: string | undefined } | { readonly undecided: readonly [string, string] } {
  const [first, second] = found;
  if (found.includes(nodeId)) return { names: nodeId };
  return first === undefined || second === undefined ? { names: first } : { undecided: [first, second] };
}
