import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, type HoldfastError, Unavailable } from '../../../volume/errors.ts';
import { type NoteFormat, noteFields } from '../../network-disk/connection-notes.ts';
import type { NetworkDevice, Target, TargetConnection } from '../../network-disk/target.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { shortId } from '../cloud.ts';
import type { DiskFinder } from './finder.ts';

export const noteFormat: NoteFormat<never> = {
  targetKey: 'disk',
  schema: z.strictObject({ ...noteFields, disk: z.string(), connections: z.array(z.never()) }),
  step: 'cloud/note',
};

/** One disk that the cloud has attached to this machine: nothing here connects it, or ends that. */
export class AttachedDisk implements Target<never> {
  readonly name: string;
  readonly nameKey = 'disk';
  readonly noun = 'disk';
  /** Never named: a disk of a cloud has no connection that could be given up. */
  readonly lossKey = '';
  readonly #serial: string;
  readonly #finder: DiskFinder;

  constructor(name: string, serial: string, finder: DiskFinder) {
    this.name = name;
    this.#serial = serial;
    this.#finder = finder;
  }

  async connect(): Promise<void> {}

  async disconnect(): Promise<void> {}

  connections(): readonly TargetConnection[] {
    return [{ name: this.name, isLive: true, isOurs: false }];
  }

  devicesOf(): readonly NetworkDevice[] {
    return this.#finder.find(this.#serial);
  }

  devicesOfOurs(): readonly NetworkDevice[] {
    return [];
  }

  async rescan(queue: DiskQueue): Promise<void> {
    await this.#finder.rescan(queue, this.#serial);
  }

  notThere({ handle }: Pick<VolumeOnNode, 'handle'>): HoldfastError {
    const obstacle = this.#finder.obstacle?.();
    if (obstacle !== undefined) return new Unavailable(`volume ${handle}: ${shortId(this.name)} ${obstacle}.`);
    return new Unavailable(
      `volume ${handle}: this node has no disk with serial number ${this.#serial}, though ${shortId(this.name)} should be attached here; it is looked for again.`,
    );
  }

  isTwice({ handle }: Pick<VolumeOnNode, 'handle'>, one: NetworkDevice, other: NetworkDevice): HoldfastError {
    return new FailedPrecondition(
      `volume ${handle}: ${one.name} and ${other.name} both have serial number ${this.#serial}.`,
    );
  }
}
