import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import type { Backend, Extras } from '../../backend.ts';
import type { OpenLocation } from '../../location/location.ts';
import type { PoolLog } from '../../log.ts';
import type { Traits, VolumeSpec } from '../../pool.ts';
import { type FileParts, FileStore } from '../../records/file-store.ts';
import { writeHealthFile } from '../../records/health-file.ts';
import { UntimedFiles } from '../../records/untimed-files.ts';
import { FilesystemTrimmer } from '../../trimmer.ts';
import { ImageAttacher } from './attacher.ts';
import { blockSizeOf } from './block-size.ts';
import { changedBlocks } from './changed-blocks.ts';
import { ImageSnapshotDraft } from './drafts.ts';
import { ImageMaker } from './image-maker.ts';
import { ImageSpace } from './image-space.ts';
import { ImageProvisioner } from './provisioner.ts';
import { ImageRepairDraft } from './repair-draft.ts';
import type { Templates } from './templates.ts';
import { ImageThickness } from './thickness.ts';
import { imageTraits } from './traits.ts';
import { ImageTransfer } from './transfer.ts';

const repairsAtOnce = 2;

export interface ImageBackendOptions extends FileParts {
  readonly name: string;
  readonly location: OpenLocation;
  readonly log: PoolLog;
  /** Files share blocks here, or are copied. */
  readonly cloning: 'reflink' | 'copy';
  readonly changedBlocks: Traits['changedBlocks'];
  readonly blockSizeBytes: number;
  /** Where mkfs runs. */
  readonly formatQueue: DiskQueue;
  readonly templates: Templates | undefined;
}

/** The shared tools of the parts of an image backend. */
export interface ImageParts extends ImageBackendOptions {
  readonly maker: ImageMaker;
  readonly attacher: ImageAttacher;
  /** Where programs run that repair filesystems: they take no worker thread, but each reads a disk for long. */
  readonly programs: DiskQueue;
}

/** Volumes as image files in a directory, shown as disks through loop devices. */
export class ImageBackend implements Backend {
  readonly kind = 'image';
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: FileStore;
  readonly provisioner: ImageProvisioner;
  readonly attacher: ImageAttacher;
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: ImageSpace;
  readonly extras: Extras;
  readonly #options: ImageBackendOptions;
  readonly #untimed: UntimedFiles | undefined;

  constructor(options: ImageBackendOptions) {
    const { cloning, layout, location, log, order, queue, syncs } = options;
    this.#options = options;
    this.queue = queue;
    this.#untimed = mayLeaveTimes(options) ? new UntimedFiles(layout, syncs, () => this.attacher.counts()) : undefined;
    this.traits = { ...imageTraits, snapshots: cloning, changedBlocks: options.changedBlocks };
    this.attacher = new ImageAttacher(queue, layout, this.#untimed);
    const { formatQueue, templates } = options;
    const maker = new ImageMaker({ queue, formatQueue, order, syncs, snapshots: cloning, templates, log });
    const programs = queue.beside('repair', repairsAtOnce);
    const parts: ImageParts = { ...options, maker, attacher: this.attacher, programs };
    this.records = new FileStore(options);
    this.provisioner = new ImageProvisioner(parts);
    this.snapshotDraft = (id) => new ImageSnapshotDraft(parts, id, cloning === 'copy');
    this.space = new ImageSpace({ ...options, backingFile: location.backingFile, isAlone: location.isAlone });
    const trimmer = new FilesystemTrimmer({
      ...parts,
      takenBytes: async (id) => (await statusOf(queue, layout.data(id))).allocatedBytes,
    });
    this.extras = {
      trim: (record, how) => trimmer.trim(record, how),
      changedRanges: (request, find) => changedBlocks(parts, request, find),
      thickness: new ImageThickness(parts),
      repairDraft: (record, fsType) => new ImageRepairDraft(parts, record, fsType),
      transfer: new ImageTransfer(parts, this.provisioner),
    };
  }

  blockSizeOf(spec: Pick<VolumeSpec, 'content' | 'mkfsArguments'>): number {
    return blockSizeOf(spec, this.#options.blockSizeBytes);
  }

  async probe(queue: DiskQueue): Promise<void> {
    await writeHealthFile(queue, this.#options.layout.root);
    await this.#options.reserve.acquire(queue);
    await this.#untimed?.stamp(queue);
    // Behind the answer: to write what a much larger filesystem needs takes longer than a sick disk is waited for.
    void this.#followDisk();
  }

  async #followDisk(): Promise<void> {
    const { location, log, name, queue } = this.#options;
    try {
      await location.followDisk();
    } catch (error) {
      if (queue.closedFor !== undefined) return;
      log.error({ pool: name, err: error }, 'the disk of a pool has been enlarged, but its filesystem cannot follow');
    }
  }

  /** Or a program that saves the pool's files while the driver is stopped would not find those that were written. */
  async #stampLast(): Promise<void> {
    if (this.queue.closedFor !== undefined) return;
    const { log, name } = this.#options;
    await this.#untimed?.stamp(this.queue, 'now').catch((error: unknown) => {
      log.warn({ pool: name, err: error }, 'cannot set the times of images that were in use');
    });
  }

  abandon(): void {
    void this.#options.templates?.close();
    this.#options.location.abandon();
  }

  async close(): Promise<void> {
    await this.#options.templates?.close();
    await this.#stampLast();
    await this.#options.location.close();
  }
}

/**
 * True if nothing needs to know when an image was written last: a copy that goes on where it was cut short does, which
 * there is only without reflinks, and so do programs that save the files of a filesystem that others use too.
 */
export function mayLeaveTimes({
  cloning,
  location,
}: Pick<ImageBackendOptions, 'cloning'> & { readonly location: Pick<OpenLocation, 'isAlone'> }): boolean {
  return cloning === 'reflink' && location.isAlone;
}
