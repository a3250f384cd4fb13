/** A volume or snapshot, on its way out too. Its id may be used again by a new one; their times tell them apart. */
export interface Relative {
  readonly id: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** The id of the object that it was made from. */
  readonly sourceId?: string | undefined;
}

interface Node {
  readonly key: string;
  readonly id: string;
  parent: Node | undefined;
  readonly children: Set<Node>;
  /** False: it is gone, and stands for what its clones share with each other. */
  isThere: boolean;
  /** Number of nodes of its tree that are there, at a root. */
  count: number;
  /** True at a root whose tree may share blocks with objects of unknown descent. */
  readonly isOld: boolean;
}

/**
 * Which objects of a pool may share blocks, by their records alone: one was made from the other, or both from a third. A
 * tree is a family. Of an object that is gone no record tells what it was made from, so after a start its clones may share
 * blocks with everything that was there before them.
 */
export class Lineage {
  readonly #nodes = new Map<string, Node>();
  /** The newest of each id: from that a new one is made. */
  readonly #newest = new Map<string, Node>();
  /** The root of clones whose sources were gone before the start. */
  readonly #unknown = newNode('', { id: '', isOld: true, isThere: false });
  /** Number of other trees that were there at the start. */
  #oldTrees = 0;

  /** The objects at the start, in any order. */
  begin(relatives: Iterable<Relative>): void {
    const all = [...relatives].sort((a, b) => compareText(a.createdAt, b.createdAt));
    const byId = new Map<string, Node[]>();
    for (const relative of all) {
      const node = this.#put(relative, true);
      byId.set(relative.id, [...(byId.get(relative.id) ?? []), node]);
    }
    for (const { sourceId, ...relative } of all) {
      const node = this.#nodes.get(keyOf(relative));
      if (node === undefined || sourceId === undefined) continue;
      const [source = this.#unknown, ...others] = byId.get(sourceId) ?? [];
      this.#join(source, node);
      // Several had the id, deleted ones among them, and the right one is not known: a clock may have been set back.
      for (const other of others) this.#join(source, other);
    }
  }

  /** Something was made, or came back. A known object is left as it is. */
  add(relative: Relative): void {
    if (this.#nodes.has(keyOf(relative))) return;
    const source = relative.sourceId === undefined ? undefined : (this.#newest.get(relative.sourceId) ?? this.#unknown);
    const node = this.#put(relative, source !== undefined && rootOf(source).isOld);
    if (source !== undefined) this.#join(source, node);
  }

  /** Nothing of it is on the disk any more. */
  remove(relative: Relative): void {
    const node = this.#nodes.get(keyOf(relative));
    if (node === undefined) return;
    this.#nodes.delete(node.key);
    if (this.#newest.get(node.id) === node) this.#newest.delete(node.id);
    node.isThere = false;
    const root = rootOf(node);
    root.count--;
    if (root.count === 0 && root !== this.#unknown && root.isOld) this.#oldTrees--;
    this.#prune(node);
  }

  has(relative: Relative): boolean {
    return this.#nodes.has(keyOf(relative));
  }

  /** True if no other object can share blocks with it. */
  isAlone(relative: Relative): boolean {
    const own = this.#nodes.get(keyOf(relative));
    if (own === undefined) return true;
    const root = rootOf(own);
    if (root.count > 1) return false;
    if (root === this.#unknown) return this.#oldTrees === 0;
    return !root.isOld || this.#unknown.count === 0;
  }

  /** The ids of all others that may share blocks with it. Takes as long as there are many; `isAlone` does not. */
  sharers(relative: Relative): string[] {
    const own = this.#nodes.get(keyOf(relative));
    if (own === undefined) return [];
    const root = rootOf(own);
    const found = membersOf(root);
    // Any old tree may be what the unknown ones come from.
    if (root === this.#unknown) {
      for (const other of this.#nodes.values()) {
        const otherRoot = rootOf(other);
        if (otherRoot !== root && otherRoot.isOld) found.push(other);
      }
    } else if (root.isOld) found.push(...membersOf(this.#unknown));
    return found.filter((node) => node !== own).map(({ id }) => id);
  }

  #put({ createdAt, id }: Relative, isOld: boolean): Node {
    const node = newNode(keyOf({ id, createdAt }), { id, isOld, isThere: true });
    if (isOld) this.#oldTrees++;
    this.#nodes.set(node.key, node);
    this.#newest.set(id, node);
    return node;
  }

  /** Makes one family of two. */
  #join(node: Node, other: Node): void {
    const [root, otherRoot] = [rootOf(node), rootOf(other)];
    if (root === otherRoot) return;
    // Nothing is above the unknown.
    const [upper, upperRoot, lower] = otherRoot === this.#unknown ? [other, otherRoot, root] : [node, root, otherRoot];
    lower.parent = upper;
    upper.children.add(lower);
    upperRoot.count += lower.count;
    if (lower.isOld) this.#oldTrees--;
  }

  /** A node that is gone is kept only while it joins several others. */
  #prune(node: Node): void {
    if (node.isThere || node === this.#unknown) return;
    const { children, parent } = node;
    if (parent === undefined && children.size > 1) return;
    parent?.children.delete(node);
    for (const child of children) {
      child.parent = parent;
      parent?.children.add(child);
      if (parent === undefined) child.count = node.count;
    }
    children.clear();
    if (parent !== undefined) this.#prune(parent);
  }
}

function newNode(key: string, { id, isOld, isThere }: Pick<Node, 'id' | 'isOld' | 'isThere'>): Node {
  return { key, id, parent: undefined, children: new Set(), isThere, count: isThere ? 1 : 0, isOld };
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function keyOf({ createdAt, id }: Relative): string {
  return `${id} ${createdAt}`;
}

function rootOf(node: Node): Node {
  let root = node;
  while (root.parent !== undefined) root = root.parent;
  return root;
}

/** The members of a tree that still exist. */
function membersOf(root: Node): Node[] {
  const members: Node[] = [];
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node.isThere) members.push(node);
    waiting.push(...node.children);
  }
  return members;
}
