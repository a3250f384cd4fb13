import { access } from 'node:fs/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { Backend, Extras } from '../../backend.ts';
import type { WipePolicy } from '../../wipe/wipe.ts';
import type { Wiper } from '../../wipe/wiper.ts';
import { DiskAttacher } from './attacher.ts';
import { DiskStore } from './disk-store.ts';
import type { Disks } from './disks.ts';
import type { HeldPartitions } from './held-partitions.ts';
import type { Notes } from './notes.ts';
import { DiskProvisioner } from './provisioner.ts';
import { DiskSpace } from './space.ts';
import { diskTraits } from './traits.ts';

/** What the parts of a disk backend work with. */
export interface DiskParts {
  readonly name: string;
  readonly queue: DiskQueue;
  readonly directory: string;
  readonly disks: Disks;
  readonly notes: Notes;
  readonly partitions: HeldPartitions;
  readonly policy: WipePolicy;
  readonly wiper: Wiper;
  /** Where mkfs runs. */
  readonly programs: DiskQueue;
}

export interface DiskBackendOptions extends DiskParts {
  /** What is held for as long as the pool is open. */
  readonly held: AsyncDisposableStack;
}

/** Volumes that are whole disks. */
export class DiskBackend implements Backend {
  readonly kind = 'disk';
  readonly traits = diskTraits;
  readonly queue: DiskQueue;
  readonly records: DiskStore;
  readonly provisioner: DiskProvisioner;
  readonly attacher: DiskAttacher;
  readonly space: DiskSpace;
  readonly extras: Extras;
  readonly #options: DiskBackendOptions;

  constructor(options: DiskBackendOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.records = new DiskStore(options);
    this.provisioner = new DiskProvisioner(options);
    this.attacher = new DiskAttacher(options);
    this.space = new DiskSpace(options.disks);
    this.extras = { wipes: () => options.wiper.progress() };
  }

  /** Its disk tells, once it has one. */
  blockSizeOf(): number {
    return 512;
  }

  /** Each disk is by itself: none of them says anything of the others. What came and went is seen on the way. */
  async probe(queue: DiskQueue): Promise<void> {
    await queue.run(() => access(this.#options.directory));
    void this.#options.disks.scan().catch(() => undefined);
  }

  abandon(): void {
    void this.#options.held.disposeAsync();
  }

  async close(): Promise<void> {
    await this.#options.held.disposeAsync();
  }
}
