import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { FilesystemPlace } from '../../../kernel/mount/filesystem-place.ts';
import type { Held } from '../../../volume/held.ts';
import type { Backend, Extras } from '../../backend.ts';
import type { Traits } from '../../pool.ts';
import { type FileParts, FileStore } from '../../records/file-store.ts';
import { writeHealthFile } from '../../records/health-file.ts';
import { DirectoryAdoption } from './adoption.ts';
import { DirectoryAttacher } from './attacher.ts';
import { DirectorySnapshotDraft } from './drafts.ts';
import type { Handovers } from './handovers.ts';
import type { Projects } from './projects.ts';
import { DirectoryProvisioner } from './provisioner.ts';
import { DirectorySpace } from './space.ts';
import { directoryTraits } from './traits.ts';
import { DirectoryTransfer } from './transfer.ts';

/** The shared tools of the parts of a directory backend. */
export interface DirectoryParts extends FileParts {
  readonly name: string;
  readonly place: FilesystemPlace;
  /** undefined: no quota holds here, or none is wanted. */
  readonly projects: Projects | undefined;
  readonly handovers: Handovers;
  readonly canShareBlocks: boolean;
  /** Where programs run that copy trees: they take no worker thread. */
  readonly programs: DiskQueue;
}

export interface DirectoryBackendOptions extends DirectoryParts {
  /** Resources that are held for as long as the pool is open. */
  readonly held: Held;
}

/** Volumes as directories on a filesystem that the operator looks after. */
export class DirectoryBackend implements Backend {
  readonly kind = 'directory';
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: FileStore;
  readonly provisioner: DirectoryProvisioner;
  readonly attacher: DirectoryAttacher;
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: DirectorySpace;
  readonly extras: Extras;
  readonly #options: DirectoryBackendOptions;

  constructor(options: DirectoryBackendOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.traits = directoryTraits(options.canShareBlocks);
    this.records = new FileStore(options);
    this.provisioner = new DirectoryProvisioner(options);
    this.attacher = new DirectoryAttacher(options);
    this.space = new DirectorySpace(options);
    if (options.canShareBlocks) this.snapshotDraft = (id) => new DirectorySnapshotDraft(options, id);
    this.extras = {
      quotaUsage: (id) => this.space.quotaUsage(id),
      adoption: new DirectoryAdoption(options, this.provisioner),
      transfer: new DirectoryTransfer(options, this.provisioner),
    };
  }

  async probe(queue: DiskQueue): Promise<void> {
    await writeHealthFile(queue, this.#options.layout.root);
    await this.#options.reserve.acquire(queue);
  }

  abandon(): void {
    void this.#options.handovers.close();
    void this.space.close();
    void this.#options.held[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    await this.#options.handovers.close();
    await this.space.close();
    await this.#options.held[Symbol.asyncDispose]();
  }
}
