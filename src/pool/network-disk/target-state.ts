import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Turns } from '../../volume/flow/turns.ts';
import { ConnectionNotes, type NoteFormat } from './connection-notes.ts';
import { type DiskUses, diskUses } from './disk-uses.ts';

/** Knowledge of this process about one target. It outlives a queue that hung. */
export class TargetState<C> {
  readonly notes: ConnectionNotes<C>;
  /** Volumes that are being unmounted. */
  readonly leaving = new Set<string>();
  /** For all that connects or disconnects: it must know which other volumes use the connections. */
  readonly turns = new Turns();
  /** Shared by all targets. */
  readonly uses: DiskUses;

  constructor(notes: ConnectionNotes<C>, uses = diskUses) {
    this.notes = notes;
    this.uses = uses;
  }
}

/** The targets of one kind. */
export class TargetStates<C> {
  readonly #name: string;
  readonly #format: NoteFormat<C>;
  readonly #states = new Map<string, Promise<TargetState<C>>>();

  /** @param name of the directory with the notes */
  constructor(name: string, format: NoteFormat<C>) {
    this.#name = name;
    this.#format = format;
  }

  open(queue: DiskQueue, dataDirectory: string, target: string): Promise<TargetState<C>> {
    const directory = join(dataDirectory, this.#name);
    const key = `${directory} ${target}`;
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    const opening = ConnectionNotes.open(queue, directory, target, this.#format).then(
      (notes) => new TargetState(notes),
    );
    this.#states.set(key, opening);
    opening.catch(() => this.#states.delete(key));
    return opening;
  }
}
