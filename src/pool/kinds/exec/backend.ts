import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { Held } from '../../../volume/held.ts';
import type { Backend, Extras } from '../../backend.ts';
import type { PoolLog } from '../../log.ts';
import { ElsewhereAttacher } from '../../network-disk/elsewhere.ts';
import type { ClusterReach, Traits } from '../../pool.ts';
import { type FileParts, FileStore } from '../../records/file-store.ts';
import { writeHealthFile } from '../../records/health-file.ts';
import type { ProgramConfig } from './config.ts';
import { writeExecContext } from './context.ts';
import type { ExecListing } from './listing.ts';
import { ExecProvisioner } from './provisioner.ts';
import { ExecSpace } from './space.ts';
import type { StorageCalls } from './storage-calls.ts';
import { execTraits } from './traits.ts';

/** Shared by the parts of a backend of a program. */
export interface ExecParts extends FileParts {
  readonly name: string;
  readonly storage: StorageCalls;
  readonly listing: ExecListing;
  readonly log: PoolLog;
}

export interface ExecBackendOptions extends ExecParts {
  readonly poolId: string;
  readonly program: ProgramConfig;
  readonly options: Readonly<Record<string, string>>;
  /** Released when the pool is closed. */
  readonly held: Held;
}

/** Volumes that a program makes: the pool has their records alone. */
export class ExecBackend implements Backend {
  readonly kind = 'exec';
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: FileStore;
  readonly provisioner: ExecProvisioner;
  readonly attacher = new ElsewhereAttacher();
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: ExecSpace;
  readonly cluster: ClusterReach;
  readonly extras: Extras = {};
  readonly #options: ExecBackendOptions;

  constructor(options: ExecBackendOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.traits = execTraits(options.program);
    this.records = new FileStore(options);
    const provisioner = new ExecProvisioner(options);
    this.provisioner = provisioner;
    if (options.program.snapshots) {
      this.snapshotDraft = (id) => provisioner.snapshotDraft(id);
    }
    this.space = new ExecSpace(options, options.storage);
    const context = writeExecContext(options.program.name, options.options);
    this.cluster = { id: options.poolId, contextOf: () => context };
  }

  async probe(queue: DiskQueue): Promise<void> {
    await writeHealthFile(queue, this.#options.layout.root);
    await this.#options.reserve.acquire(queue);
  }

  abandon(): void {
    void this.#options.held[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    await this.#options.held[Symbol.asyncDispose]();
  }
}
