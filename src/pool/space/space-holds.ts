import type { VolumeId } from '../../volume/id.ts';
import type { Provisioning } from '../../volume/record.ts';
import type { TrashEntry } from '../indexes/trash-entry.ts';
import type { VolumeSpace } from './volume-space.ts';

/** The space that an operation is going to need. */
export interface SpaceRequest {
  /** The bytes that it makes, or adds. */
  readonly newBytes: bigint;
  /** thick: the blocks are taken at once, so they must be there, whatever may be provisioned. */
  readonly provisioning?: Provisioning;
  /** Promised already, but taken at once. */
  readonly takenBytes?: bigint;
  /** The part of that which it has taken so far. */
  readonly taken?: () => Promise<bigint>;
  /** A volume that exists grows: a size that it cannot have is final, so that the caller asks for a smaller one. */
  readonly isGrowth?: boolean;
  /** Volumes whose blocks it is going to share: they own nothing afterwards, and may have to write all of it again. */
  readonly sourceIds?: readonly VolumeId[];
  /** Volumes that share blocks with it already, which was granted: nothing is known of what they own meanwhile. */
  readonly sharingIds?: readonly VolumeId[];
  /** The entry of the trash that it brings back, or is about to: that is not purged to make room for itself. */
  readonly again?: TrashEntry;
}

/** Space that is held for operations under way. */
export class SpaceHolds {
  readonly #volumes: VolumeSpace;
  /** For each operation that takes space: a function that notes what it has taken, and a promise of its end. */
  readonly #taking = new Map<() => Promise<void>, Promise<void>>();

  constructor(volumes: VolumeSpace) {
    this.#volumes = volumes;
  }

  /** Until it is disposed of. */
  add({ newBytes, sharingIds = [], sourceIds = [], taken, takenBytes = 0n }: SpaceRequest): Disposable {
    const space = this.#volumes.hold(newBytes + takenBytes);
    const holds = [space, ...[...sourceIds, ...sharingIds].map((id) => this.#volumes.pin(id))];
    const noteTaken = async () => space.took((await taken?.()) ?? 0n);
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    if (taken !== undefined) this.#taking.set(noteTaken, ended);
    return {
      [Symbol.dispose]: () => {
        this.#taking.delete(noteTaken);
        for (const each of holds) each[Symbol.dispose]();
        end();
      },
    };
  }

  /** Taken bytes are not free any more: held as well they would count twice, and the trash would be emptied for nothing. */
  async noteTaken(): Promise<void> {
    await Promise.all(Array.from(this.#taking.keys(), (note) => note()));
  }

  /** Resolves when all have ended that take space now; undefined: there are none. */
  get ended(): Promise<unknown> | undefined {
    return this.#taking.size === 0 ? undefined : Promise.all(this.#taking.values());
  }
}
