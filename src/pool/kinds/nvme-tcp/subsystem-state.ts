import { join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { SubsystemNotes } from './connections.ts';

/** Runs works one after the other. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

/** Knowledge of this process about one subsystem. It outlives a queue that hung. */
export class SubsystemState {
  readonly notes: SubsystemNotes;
  /** Volumes that are being unmounted. */
  readonly leaving = new Set<string>();
  /** For all that connects or disconnects: it must know which other volumes use the connections. */
  readonly turns = new Turns();

  private constructor(notes: SubsystemNotes) {
    this.notes = notes;
  }

  static open(queue: DiskQueue, dataDirectory: string, nqn: string): Promise<SubsystemState> {
    const directory = stateDirectory(dataDirectory);
    const key = `${directory} ${nqn}`;
    const known = states.get(key);
    if (known !== undefined) return known;
    const opening = SubsystemNotes.open(queue, directory, nqn).then((notes) => new SubsystemState(notes));
    states.set(key, opening);
    opening.catch(() => states.delete(key));
    return opening;
  }
}

const states = new Map<string, Promise<SubsystemState>>();

export function stateDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'nvme-tcp');
}
