import { basename, dirname } from 'node:path';
import { type FormatRequest, format } from '../../../command/mkfs.ts';
import { CommandError } from '../../../command/run.ts';
import { mountBriefly, withDevice } from '../../../filesystems/brief-mount.ts';
import { giveNewIdentity } from '../../../filesystems/identity.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { allocate, createFile, type DirectorySync, resizeFile, syncFile } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, NewData } from '../../backend.ts';
import type { PoolLog } from '../../log.ts';
import type { CommitOrder } from '../../records/commit-order.ts';
import { copyImage } from './copy.ts';
import { ReflinkClone } from './reflink-clone.ts';
import type { Filling, TemplateRequest } from './template.ts';
import type { Templates } from './templates.ts';

/** The block size of devices that do direct I/O over images that share their blocks. */
const minBlockBytesToShare = 4096;

export type ImageSize = Pick<VolumeRecord, 'provisioning' | 'sizeBytes'>;

export interface ImageMakerOptions {
  readonly queue: DiskQueue;
  /** mkfs runs here: a child process takes no worker thread, but a dead disk must not collect hundreds of them. */
  readonly formatQueue: DiskQueue;
  readonly syncs: DirectorySync;
  readonly order: CommitOrder;
  readonly snapshots: 'reflink' | 'copy';
  /** The templates for new filesystems. */
  readonly templates: Templates | undefined;
  readonly log: PoolLog;
}

/** Makes images in tmp/, where they are not visible. */
export class ImageMaker {
  readonly #options: ImageMakerOptions;

  constructor(options: ImageMakerOptions) {
    this.#options = options;
  }

  /** A new image without content: empty, or with all the blocks of a thick volume. */
  async create(path: string, size: ImageSize): Promise<Descriptor> {
    const image = await createFile(this.#options.queue, path);
    try {
      await this.#allocate(image, size);
      return image;
    } catch (error) {
      await image[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Gives a new image its size, and formats it unless it is a block volume's. On the disk before the rename that commits it. */
  async complete(id: VolumeId, data: NewData, image: Descriptor): Promise<void> {
    const { blockSizeBytes, content } = data;
    const { path } = image;
    const { queue, templates } = this.#options;
    if (content.type === 'mount') {
      const request: TemplateRequest = {
        fsType: content.fsType,
        sizeBytes: data.sizeBytes,
        blockSizeBytes,
        extraArguments: data.mkfsArguments,
      };
      await step('create/format', async () => {
        // An image from a template has the template's size.
        if ((await templates?.fill(id, request, image, this.#fillingOf(data))) === true) return;
        // A template that proved to be of no use has cost it its blocks. XFS wants room for all of them even where they
        // are there, so they are not allocated twice.
        if ((await statusOf(queue, image)).allocatedBytes === 0n) await this.#allocate(image, data);
        await resizeFile(queue, image, data.sizeBytes);
        await this.#format({ ...request, path, isZeroed: true });
      });
    } else {
      await resizeFile(queue, image, data.sizeBytes);
    }
    await this.#options.order.content(image);
  }

  /**
   * A thick volume has its own blocks already. One whose device has small blocks must have its own: over shared ones the
   * device does no direct I/O (`block-size.ts`).
   */
  #fillingOf({ blockSizeBytes, provisioning }: NewData): Filling {
    const ownsBlocks = provisioning === 'thick' || blockSizeBytes < minBlockBytesToShare;
    return this.#options.snapshots === 'copy' || ownsBlocks ? 'copy' : 'share';
  }

  async #format(request: FormatRequest): Promise<void> {
    const { formatQueue, queue } = this.#options;
    const { extraArguments, fsType } = request;
    try {
      await formatQueue.run(() => format(request));
      // Not everything that mkfs makes on demand can be mounted by this kernel: e.g. blocks larger than a page.
      if (extraArguments.length > 0) await withDevice(queue, request, (device) => mountBriefly(queue, fsType, device));
    } catch (error) {
      if (extraArguments.length === 0) throw error;
      throw badOptions(error, fsType);
    }
  }

  /** A clone of a source that the caller keeps free of writes during its end, and that the caller syncs. */
  clone(fromPath: string, path: string): Clone {
    const { queue, log, snapshots, syncs } = this.#options;
    if (snapshots === 'reflink') return new ReflinkClone(queue, fromPath, path);
    const draft = basename(dirname(path));
    return {
      // A source in use is not copied.
      complete: ({ signal }) =>
        copyImage(queue, syncs, {
          fromPath,
          directory: dirname(path),
          signal,
          onProgress: (doneBytes, totalBytes) => {
            log.info({ draft, done_bytes: `${doneBytes}`, total_bytes: `${totalBytes}` }, 'copying an image');
          },
        }),
    };
  }

  /**
   * Turns a clone into a volume: it gets its own size and, where two filesystems of one identity could not be mounted side by
   * side, its own identity. It is on the disk before the rename that commits it.
   */
  async adopt(data: Omit<NewData, 'mkfsArguments'>, path: string): Promise<void> {
    const { formatQueue, order, queue } = this.#options;
    const { blockSizeBytes, content } = data;
    await this.#enlarge(path, data);
    if (content.type === 'mount') {
      const { fsType } = content;
      await formatQueue.run(() => giveNewIdentity(queue, { path, fsType, blockSizeBytes }));
    }
    await order.content(path);
  }

  /** Makes an image at least as large as this, durably; with all its blocks if it is thick. */
  async enlarge(path: string, size: ImageSize): Promise<void> {
    await this.#enlarge(path, size);
    await syncFile(this.#options.queue, path);
  }

  /** An image is never cut off, whatever a record says: there may be a filesystem up to its end. */
  async #enlarge(path: string, size: ImageSize): Promise<void> {
    const { queue } = this.#options;
    await this.#allocate(path, size);
    if ((await statusOf(queue, path)).sizeBytes < size.sizeBytes) await resizeFile(queue, path, size.sizeBytes);
  }

  async #allocate(image: Descriptor | string, { provisioning, sizeBytes }: ImageSize): Promise<void> {
    if (provisioning === 'thick') await allocate(this.#options.queue, image, sizeBytes);
  }
}

function badOptions(error: unknown, fsType: FilesystemType): unknown {
  if (error instanceof CommandError) return new InvalidArgument(`mkfsOptions: ${error.message}`);
  if (!(error instanceof KernelError)) return error;
  return new InvalidArgument(`mkfsOptions: they make an ${fsType} that this node cannot mount (${error.message}).`);
}
