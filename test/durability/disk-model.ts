import { dirname } from 'node:path';
import type { DiskEvent } from './disk-event.ts';

/** What of it must be durable. */
export interface Rules {
  /** Whether a file's content, or a directory's entries, are relied upon once an operation was answered. */
  readonly matters: (path: string) => boolean;
  /** Whether somebody relies on the directory entry of this name. Others may come and go. */
  readonly isRelevantEntry: (path: string, change: 'make' | 'remove' | 'rename') => boolean;
  /** Whether somebody may rely on what has this in it, wherever it is put. */
  readonly isPrecious: (paths: readonly string[]) => boolean;
  /** What else must be durable before this is changed, or before something is renamed to it. */
  readonly mustComeBefore: (path: string, change: 'write' | 'remove' | 'rename') => readonly string[];
}

/** A file or directory: when it last changed, and since when what it had is on the disk; as places in the trace. */
interface Node {
  changedAt: number;
  change: string;
  syncedAt: number;
}

const never = -1;

/**
 * What the disk is certain to have, told only from system calls (fsync(2), rename(2)):
 * - a file's content is on the disk once a sync of the file began after the last write had returned;
 * - so it is once a sync of its whole filesystem began after that (syncfs(2));
 * - a directory entry is once a sync of the directory began after the change had returned.
 *
 * What is renamed to where it is relied upon must be on the disk before, with all that is in it: the rename may be
 * there after a power cut without what came earlier.
 */
export function lostByPowerCut(events: readonly DiskEvent[], rules: Rules): string[] {
  const model = new DiskModel(rules);
  // What a call does counts from its return. What must be there before it must be there as it begins.
  const turns = events.flatMap((event) => [
    { at: event.start, take: () => model.isAboutTo(event) },
    { at: event.end, take: () => model.take(event) },
  ]);
  for (const { take } of turns.sort((a, b) => a.at - b.at)) take();
  return model.complaints;
}

class DiskModel {
  readonly complaints: string[] = [];
  readonly #nodes = new Map<string, Node>();
  readonly #rules: Rules;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  isAboutTo(event: DiskEvent): void {
    if (event.kind === 'rename') {
      const { from, to } = event;
      const all = this.#below(from);
      const moved = this.#rules.matters(to) || this.#rules.isPrecious(all) ? all : [];
      for (const path of [...moved, ...this.#rules.mustComeBefore(to, event.kind)])
        this.#check(path, `when it was renamed to ${to}`);
    } else if (event.kind === 'write' || event.kind === 'remove') {
      for (const path of this.#rules.mustComeBefore(event.path, event.kind))
        this.#check(path, `before a ${event.kind} of ${event.path}`);
    }
  }

  take(event: DiskEvent): void {
    const { end, start } = event;
    switch (event.kind) {
      case 'open':
        if (event.isCreated && !this.#nodes.has(event.path)) this.#make(event.path, end);
        break;
      case 'make':
        this.#make(event.path, end);
        break;
      case 'write':
        if (!event.isDurable) this.#changed(event.path, end, 'written');
        break;
      case 'sync': {
        const node = this.#node(event.path);
        node.syncedAt = Math.max(node.syncedAt, start);
        break;
      }
      case 'sync-all':
        for (const path of this.#below(event.path)) {
          const node = this.#node(path);
          node.syncedAt = Math.max(node.syncedAt, start);
        }
        break;
      case 'remove':
        this.#forget(event.path);
        this.#entry(event.path, end, 'remove');
        break;
      case 'rename':
        this.#rename(event.from, event.to, end);
        break;
      case 'answer':
        for (const path of this.#nodes.keys()) {
          if (this.#rules.matters(path)) this.#check(path, `when ${event.to} was answered`);
        }
    }
  }

  #make(path: string, at: number): void {
    // Empty, it is whole as soon as its entry is there.
    this.#nodes.set(path, { changedAt: never, change: '', syncedAt: never });
    this.#entry(path, at, 'make');
  }

  #rename(from: string, to: string, end: number): void {
    this.#forget(to);
    for (const path of this.#below(from)) {
      const node = this.#node(path);
      this.#nodes.delete(path);
      this.#nodes.set(to + path.slice(from.length), node);
    }
    this.#entry(from, end, 'rename');
    this.#entry(to, end, 'rename');
  }

  #entry(path: string, at: number, change: 'make' | 'remove' | 'rename'): void {
    if (this.#rules.isRelevantEntry(path, change)) this.#changed(dirname(path), at, `${change} of ${path}`);
  }

  #changed(path: string, at: number, change: string): void {
    const node = this.#node(path);
    node.changedAt = at;
    node.change = change;
  }

  /** Complains once of each change. */
  #check(path: string, when: string): void {
    const node = this.#node(path);
    if (node.changedAt === never || node.changedAt < node.syncedAt) return;
    this.complaints.push(`${path} was not synced ${when} (${node.change})`);
    node.changedAt = never;
  }

  #node(path: string): Node {
    let node = this.#nodes.get(path);
    if (node === undefined) {
      node = { changedAt: never, change: '', syncedAt: never };
      this.#nodes.set(path, node);
    }
    return node;
  }

  #below(path: string): string[] {
    return [...this.#nodes.keys()].filter((each) => each === path || each.startsWith(`${path}/`));
  }

  #forget(path: string): void {
    for (const each of this.#below(path)) this.#nodes.delete(each);
  }
}
