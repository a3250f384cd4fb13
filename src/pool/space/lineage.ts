/** A volume or snapshot, on its way out too. Its name is used again by a new one; when it was made tells them apart. */
export interface Relative {
  readonly id: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** What it was made from. */
  readonly sourceId?: string | undefined;
}

interface Node {
  readonly key: string;
  readonly id: string;
  parent: Node | undefined;
  readonly children: Set<Node>;
  /** False: it is gone, and stands for what its clones share with each other. */
  isThere: boolean;
  /** Whether something of unknown descent may share blocks with its tree. */
  readonly isOld: boolean;
}

/**
 * Which objects of a pool may share blocks, by their records alone: one was made from the other, or both from a third. Of
 * an object that is gone no record tells what it was made from, so after a start its clones may share blocks with
 * everything that was there before them.
 */
export class Lineage {
  readonly #nodes = new Map<string, Node>();
  /** The newest of each id: from that a new one is made. */
  readonly #newest = new Map<string, Node>();
  /** The clones of what was gone before the start. */
  readonly #unknown: Node = {
    key: '',
    id: '',
    parent: undefined,
    children: new Set(),
    isThere: false,
    isOld: true,
  };

  /** What was there at the start, in any order. */
  begin(relatives: Iterable<Relative>): void {
    const byId = new Map<string, Node[]>();
    const all = [...relatives].sort((a, b) => compareText(a.createdAt, b.createdAt));
    for (const relative of all) {
      const node = this.#put(relative, undefined, true);
      byId.set(relative.id, [...(byId.get(relative.id) ?? []), node]);
    }
    for (const { sourceId, ...relative } of all) {
      const node = this.#nodes.get(keyOf(relative));
      if (node === undefined || sourceId === undefined) continue;
      const [source, ...others] = byId.get(sourceId) ?? [];
      // Of several that had the id, deleted ones among them, a clock that was set back must not choose the wrong one.
      if (source === undefined || others.length > 0) attach(node, this.#unknown);
      else attach(node, source);
    }
  }

  /** Something was made, or came back. What is known already is left as it is. */
  add(relative: Relative): void {
    if (this.#nodes.has(keyOf(relative))) return;
    const source = relative.sourceId === undefined ? undefined : this.#newest.get(relative.sourceId);
    const parent = source ?? (relative.sourceId === undefined ? undefined : this.#unknown);
    this.#put(relative, parent, parent?.isOld === true);
  }

  /** Nothing of it is on the disk any more. */
  remove(relative: Relative): void {
    const node = this.#nodes.get(keyOf(relative));
    if (node === undefined) return;
    this.#nodes.delete(node.key);
    if (this.#newest.get(node.id) === node) this.#newest.delete(node.id);
    node.isThere = false;
    this.#prune(node);
  }

  has(relative: Relative): boolean {
    return this.#nodes.has(keyOf(relative));
  }

  /** The ids of all others that may share blocks with it. */
  sharers(relative: Relative): string[] {
    const own = this.#nodes.get(keyOf(relative));
    if (own === undefined) return [];
    const root = rootOf(own);
    const found = membersOf(root);
    if (root.isOld && this.#unknown.children.size > 0) {
      if (root !== this.#unknown) found.push(...membersOf(this.#unknown));
      // Any old tree may be what they come from.
      else for (const other of this.#nodes.values()) if (isOldRoot(other)) found.push(...membersOf(other));
    }
    return found.filter((node) => node !== own).map(({ id }) => id);
  }

  /** Whether no other one can share blocks with it. */
  isAlone(relative: Relative): boolean {
    return this.sharers(relative).length === 0;
  }

  #put({ createdAt, id }: Relative, parent: Node | undefined, isOld: boolean): Node {
    const node: Node = {
      key: keyOf({ id, createdAt }),
      id,
      parent: undefined,
      children: new Set(),
      isThere: true,
      isOld,
    };
    if (parent !== undefined) attach(node, parent);
    this.#nodes.set(node.key, node);
    this.#newest.set(id, node);
    return node;
  }

  /** A node that is gone is kept only while it joins several others. */
  #prune(node: Node): void {
    if (node.isThere || node === this.#unknown) return;
    const { children, parent } = node;
    if (parent === undefined && children.size > 1) return;
    parent?.children.delete(node);
    for (const child of children) {
      child.parent = undefined;
      if (parent !== undefined) attach(child, parent);
    }
    children.clear();
    if (parent !== undefined) this.#prune(parent);
  }
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function keyOf({ createdAt, id }: Relative): string {
  return `${id} ${createdAt}`;
}

function attach(node: Node, parent: Node): void {
  node.parent?.children.delete(node);
  node.parent = parent;
  parent.children.add(node);
}

function rootOf(node: Node): Node {
  let root = node;
  while (root.parent !== undefined) root = root.parent;
  return root;
}

function isOldRoot({ isOld, parent }: Node): boolean {
  return isOld && parent === undefined;
}

/** Those of a tree that are there. */
function membersOf(root: Node): Node[] {
  const members: Node[] = [];
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node.isThere) members.push(node);
    waiting.push(...node.children);
  }
  return members;
}
