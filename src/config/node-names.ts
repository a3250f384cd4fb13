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
  return unfitNames(names) === undefined && fits(nodeId, names);
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

/** Two patterns, and whether every name that fits `one` fits `other`, too. */
export interface Overlap {
  readonly one: string;
  readonly other: string;
  readonly isContained: boolean;
}

/** The pairs of patterns that a name can fit both of: such a node has no section. A whole name stands before any pattern. */
export function overlaps(names: readonly string[]): Overlap[] {
  const patterns = names.filter((each) => each.includes('*'));
  return patterns.flatMap((one, index) =>
    patterns.slice(index + 1).flatMap((other): Overlap[] => {
      // A * in a name is met by a * in a pattern alone, so one that fits as a text fits with all of its names.
      if (fits(one, other)) return [{ one, other, isContained: true }];
      if (fits(other, one)) return [{ one: other, other: one, isContained: true }];
      return haveCommonEnds(one, other) ? [{ one, other, isContained: false }] : [];
    }),
  );
}

function fits(text: string, pattern: string): boolean {
  const words = pattern.split('*').map((word) => word.replaceAll('.', '\\.'));
  return new RegExp(`^${words.join('.*')}$`).test(text);
}

/** The middles of two patterns can follow one another in a name, so only the ends of the patterns decide. */
function haveCommonEnds(one: string, other: string): boolean {
  const [start, otherStart] = [one, other].map((each) => each.slice(0, each.indexOf('*')));
  const [end, otherEnd] = [one, other].map((each) => each.slice(each.lastIndexOf('*') + 1));
  if (start === undefined || otherStart === undefined || end === undefined || otherEnd === undefined) return false;
  const meets = start.startsWith(otherStart) || otherStart.startsWith(start);
  return meets && (end.endsWith(otherEnd) || otherEnd.endsWith(end));
}
