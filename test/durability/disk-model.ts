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

/** A file or directory: when it changed, and since when what it had is on the disk; as places in the trace. */
interface Node {
  changedAt: number;
  change: string;
  syncedAt: number;
  /** Of content that changed: when the disk had it, be it in its cache. */
  writtenOutAt: number;
  /** All times at which its names changed. */
  readonly named: number[];
}

const never = -1;
/** A change of content. */
const written = 'written';

const newNode = (): Node => ({ changedAt: never, change: '', syncedAt: never, writtenOutAt: never, named: [] });

/**
 * What the disk is certain to have, told only from system calls (fsync(2), rename(2)):
 * - a file's content is on the disk once a sync of the file began after the last write had returned;
 * - so it is once a sync of its whole filesystem began after that (syncfs(2));
 * - a directory entry is once a sync of the directory began after the change had returned.
 *
 * Where the filesystem has one journal for all changes but those of content, in their order, more is certain:
 * - the sync of a directory makes every such change durable that returned before the directory's own last one;
 * - with that change goes content that was written out before it.
 *
 * What is renamed to where it is relied upon must be on the disk before, with all that is in it: the rename may be
 * there after a power cut without what came earlier.
 */
export function lostByPowerCut(events: readonly DiskEvent[], rules: Rules, hasOneJournal = false): string[] {
  const model = new DiskModel(rules, hasOneJournal);
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
  readonly #hasOneJournal: boolean;
  /** Up to here the journal is on the disk. */
  #committedAt = never;

  constructor(rules: Rules, hasOneJournal: boolean) {
    this.#rules = rules;
    this.#hasOneJournal = hasOneJournal;
  }

  isAboutTo(event: DiskEvent): void {
    if (event.kind === 'rename') {
      const { from, to } = event;
      const all = this.#below(from);
      const moved = this.#rules.matters(to) || this.#rules.isPrecious(all) ? all : [];
      for (const path of [...moved, ...this.#rules.mustComeBefore(to, event.kind)])
        this.#checkBefore(path, `when it was renamed to ${to}`);
    } else if (event.kind === 'write' || event.kind === 'remove') {
      // Content is in no journal.
      const check = event.kind === 'write' ? this.#check : this.#checkBefore;
      for (const path of this.#rules.mustComeBefore(event.path, event.kind))
        check.call(this, path, `before a ${event.kind} of ${event.path}`);
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
        if (!event.isDurable) this.#changed(event.path, end, written);
        break;
      case 'sync': {
        const node = this.#node(event.path);
        node.syncedAt = Math.max(node.syncedAt, start);
        const commits = node.named.filter((at) => at < start);
        this.#committedAt = Math.max(this.#committedAt, ...commits);
        break;
      }
      case 'write-out': {
        const node = this.#node(event.path);
        if (node.changedAt < start) node.writtenOutAt = end;
        break;
      }
      case 'sync-all':
        for (const path of this.#below(event.path)) {
          const node = this.#node(path);
          node.syncedAt = Math.max(node.syncedAt, start);
        }
        this.#committedAt = Math.max(this.#committedAt, start);
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
    this.#nodes.set(path, newNode());
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
    this.#node(dirname(path)).named.push(at);
    if (this.#rules.isRelevantEntry(path, change)) this.#changed(dirname(path), at, `${change} of ${path}`);
  }

  #changed(path: string, at: number, change: string): void {
    const node = this.#node(path);
    node.changedAt = at;
    node.change = change;
    node.writtenOutAt = never;
  }

  /** Complains once of each change. */
  #check(path: string, when: string): void {
    const node = this.#node(path);
    if (node.changedAt === never || node.changedAt < node.syncedAt) return;
    if (this.#hasOneJournal && this.#inJournalAt(node) <= this.#committedAt) return;
    this.complaints.push(`${path} was not synced ${when} (${node.change})`);
    node.changedAt = never;
  }

  /** The same for what must be on the disk no later than the change of a name that begins now. */
  #checkBefore(path: string, when: string): void {
    if (this.#hasOneJournal && Number.isFinite(this.#inJournalAt(this.#node(path)))) return;
    this.#check(path, when);
  }

  /** From which place of the journal on it is durable with that; Infinity: the journal does not have it. */
  #inJournalAt({ change, changedAt, writtenOutAt }: Node): number {
    if (change !== written) return changedAt;
    return writtenOutAt === never ? Number.POSITIVE_INFINITY : writtenOutAt;
  }

  #node(path: string): Node {
    let node = this.#nodes.get(path);
    if (node === undefined) {
      node = newNode();
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
