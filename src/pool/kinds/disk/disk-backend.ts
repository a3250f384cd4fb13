import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { WipePolicy } from '../../../volume/wipe-policy.ts';
import type { Adoption, Backend, Extras } from '../../backend.ts';
import type { Traits } from '../../pool.ts';
import type { Wiper } from '../../wipe/wiper.ts';
import { DiskAttacher } from './attacher.ts';
import type { DiskLabel } from './label/disk-label.ts';
import type { MappedNode, MappedParts } from './mapped.ts';
import { DiskProvisioner } from './provisioner.ts';
import { LabelStore } from './record-store.ts';
import { DiskSpace } from './space.ts';
import { diskTraits } from './traits.ts';
import { DiskTransfer } from './transfer.ts';

export interface DiskBackendOptions {
  readonly poolName: string;
  readonly queue: DiskQueue;
  /** Where the volume is opened. */
  readonly calls: DiskQueue;
  /** Where mkfs runs. */
  readonly formatQueue: DiskQueue;
  readonly label: DiskLabel;
  readonly mapped: MappedParts;
  readonly wiper: Wiper;
  readonly wipePolicy: WipePolicy;
  /** The logical block size of the disk. */
  readonly blockSizeBytes: number;
  /** For a disk that was adopted, or can be. */
  readonly adoption?: Adoption | undefined;
  /** The value in the section. */
  readonly mayAdopt: boolean;
  /** For such a disk: a device of it still shows the adopted content. @throws FailedPrecondition, DataLoss */
  readonly requireOwn?: ((queue: DiskQueue, device: Descriptor) => Promise<void>) | undefined;
}

/** The shared tools of the parts of the backend. */
export interface DiskParts extends DiskBackendOptions {
  missing(id: string): DataLoss;
  /** Opens what the disk has, made sure of. */
  openData(queue: DiskQueue, objectName: string, flags?: number): Promise<MappedNode>;
}

/** A disk that is one volume. */
export class DiskBackend implements Backend {
  readonly kind = 'disk';
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: LabelStore;
  readonly provisioner: DiskProvisioner;
  readonly attacher: DiskAttacher;
  readonly space: DiskSpace;
  readonly extras: Extras;
  readonly #parts: DiskParts;

  constructor(options: DiskBackendOptions) {
    const { adoption, label, mayAdopt, poolName, queue, wiper } = options;
    const missing = (id: VolumeId | string) =>
      new DataLoss(`volume ${id} is not on the disk of pool ${poolName}: its label says otherwise.`);
    const openData = (calls: DiskQueue, objectName: string, flags?: number) =>
      openOwn(options, calls, objectName, flags);
    const parts: DiskParts = { ...options, missing, openData };
    this.#parts = parts;
    this.queue = queue;
    this.traits = diskTraits(label.payload.data.lengthBytes);
    this.records = new LabelStore(label);
    this.provisioner = new DiskProvisioner(parts);
    this.attacher = new DiskAttacher(parts);
    this.space = new DiskSpace(label);
    this.extras = {
      ...{ adoption, noAdoption: whyNoAdoption(mayAdopt), wipes: () => wiper.progress() },
      // A fence must lie on the disk: the note about an adopted one goes with the node's own disk.
      transfer: adoption === undefined ? new DiskTransfer(parts) : undefined,
    };
  }

  blockSizeOf(): number {
    return this.#parts.blockSizeBytes;
  }

  probe(queue: DiskQueue): Promise<void> {
    return this.#parts.label.probe(queue);
  }

  abandon(): void {
    void this.#parts.label[Symbol.asyncDispose]();
  }

  /** A volume that is in use stays so, and its device keeps the disk. */
  async close(): Promise<void> {
    const { label, mapped, queue } = this.#parts;
    await label.leave(queue).catch(() => undefined);
    await label[Symbol.asyncDispose]();
    await mapped.remove(queue, mapped.label);
  }
}

function whyNoAdoption(mayAdopt: boolean): string {
  return mayAdopt
    ? 'adopts and releases nothing: its disk was blank, and has a label by now (docs/disks.md).'
    : 'adopts and releases nothing: its section has no adopt: true (docs/disks.md).';
}

/** A device that shows foreign data is removed: it would keep the disk from its owner. */
async function openOwn(
  { label, mapped, requireOwn }: DiskBackendOptions,
  queue: DiskQueue,
  objectName: string,
  flags: number | undefined,
): Promise<MappedNode> {
  const wanted = mapped.data(objectName);
  // Another node that sees the disk may have given it to another volume meanwhile: that is found before the first byte.
  await label.refresh();
  const node = await mapped.open(queue, wanted, label.payload.data, flags);
  try {
    await requireOwn?.(queue, node.descriptor);
    return node;
  } catch (error) {
    await node.descriptor[Symbol.asyncDispose]();
    await mapped.remove(queue, wanted).catch(() => undefined);
    throw error;
  }
}
