import { setTimeout as delay } from 'node:timers/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type NfsExport, serverOf } from '../../../kernel/nfs/mount.ts';
import type { NfsOptions } from '../../../kernel/nfs/options.ts';
import { forceUnmountNfs, isAnswering } from '../../../kernel/nfs/unmount.ts';
import type { Held } from '../../../volume/held.ts';
import type { Backend, Extras } from '../../backend.ts';
import type { ClusterReach, HealthWatch } from '../../pool.ts';
import { type FileParts, FileStore } from '../../records/file-store.ts';
import { TreeSpace } from '../../records/tree-space.ts';
import { NfsAttacher } from './attacher.ts';
import { writeNfsContext } from './context.ts';
import { NfsSnapshotDraft } from './drafts.ts';
import type { ExportLock } from './lock.ts';
import type { OnDelete } from './on-delete.ts';
import { NfsProvisioner } from './provisioner.ts';
import { nfsTraits } from './traits.ts';
import type { VolumeNames } from './volume-names.ts';

/** Shared by the parts of a backend on NFS. */
export interface NfsParts extends FileParts {
  readonly name: string;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly exported: NfsExport;
  /** The pool's own directory in the export. */
  readonly directory: string;
  /** Mount options of volumes; a volume's own options win. */
  readonly options: NfsOptions;
  readonly onDelete: OnDelete;
  readonly names: VolumeNames;
  /** Where programs run that copy trees: they take no worker thread. */
  readonly programs: DiskQueue;
}

export interface NfsBackendOptions extends NfsParts {
  readonly poolId: string;
  /** Mount options of volumes, as the configuration has them. */
  readonly mountOptions: string;
  readonly mountPoint: string;
  readonly lock: ExportLock;
  /** Released when the pool is closed. */
  readonly held: Held;
}

const askAgainMs = 500;

/** Volumes as directories of an NFS export. */
export class NfsBackend implements Backend {
  readonly kind = 'nfs';
  readonly traits = nfsTraits;
  readonly queue: DiskQueue;
  readonly records: FileStore;
  readonly provisioner: NfsProvisioner;
  readonly attacher: NfsAttacher;
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: TreeSpace<NfsBackendOptions>;
  readonly cluster: ClusterReach;
  readonly extras: Extras = {};
  readonly #options: NfsBackendOptions;
  #isAbandoned = false;

  constructor(options: NfsBackendOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.records = new FileStore(options);
    this.provisioner = new NfsProvisioner(options);
    this.attacher = new NfsAttacher(options);
    this.space = new TreeSpace(options, { sharesBlocks: false });
    const { directory, exported, mountOptions, poolId } = options;
    this.cluster = {
      id: poolId,
      contextOf: ({ id, parameters }) =>
        writeNfsContext(
          { exported, directory: `${directory}/volumes/${id}/data` },
          { mountOptions, mountPermissions: parameters['mountPermissions'] },
        ),
    };
    this.snapshotDraft = (id) => new NfsSnapshotDraft(options, id);
  }

  async probe(queue: DiskQueue, watch: HealthWatch): Promise<void> {
    const { exported, options } = this.#options;
    const answered = watch.waitsFor(`NFS server ${exported.host}`);
    try {
      // Asked without a mount: what the kernel waits for ends with words of the kernel, and later.
      while (!(await isAnswering(serverOf(exported, options)))) {
        if (this.#isAbandoned) return;
        await delay(askAgainMs);
      }
      await this.#options.lock.check(queue);
      await this.#options.reserve.acquire(queue);
    } finally {
      answered();
    }
  }

  /** Ends calls that wait for the server with an error, so that the pool can be opened again once the server answers. */
  abandon(): void {
    this.#isAbandoned = true;
    void this.space.close();
    void forceUnmountNfs(this.#options.mountPoint).catch(() => undefined);
    void this.#options.held[Symbol.asyncDispose]().catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.space.close();
    await this.#options.held[Symbol.asyncDispose]();
  }
}
