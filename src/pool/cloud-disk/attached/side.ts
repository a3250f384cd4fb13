import { join } from 'node:path';
import { NetworkDiskSide } from '../../network-disk/side.ts';
import { TargetStates } from '../../network-disk/target-state.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import type { Attachment, AttachOptions } from '../../pool.ts';
import type { DiskFinder } from './finder.ts';
import { type FirstUse, prepareFirstUse, refuseBlank } from './first-use.ts';
import { AttachedDisk, noteFormat } from './target.ts';

/** The facts of a volume that a cloud has, from its context. */
export interface CloudContext {
  readonly diskId: string;
  readonly mkfsOptions: string;
  readonly isRestored: boolean;
}

export interface CloudSideOptions {
  /** The kind's name: also of the directory with notes. */
  readonly kind: string;
  readonly finder: DiskFinder;
  /** The serial number of a disk's device. */
  serialOf(diskId: string): string;
  /** True if this driver has made the volume: one that a person names is never formatted. */
  isOwn(volume: VolumeOnNode): boolean;
  read(volume: VolumeOnNode): CloudContext;
}

const states = new Map<string, TargetStates<never>>();

/** The side of one disk: each shares its fate with no other. */
export async function openCloudSide(options: CloudSideOptions, context: NodeSideContext): Promise<NodeSide> {
  const { dataDirectory, queue, server } = context;
  const all = states.get(options.kind) ?? new TargetStates(options.kind, noteFormat);
  states.set(options.kind, all);
  return new CloudDiskSide(options, context, await all.open(queue, dataDirectory, server));
}

type State = Awaited<ReturnType<TargetStates<never>['open']>>;

class CloudDiskSide extends NetworkDiskSide<never> {
  readonly #options: CloudSideOptions;
  readonly #nodeContext: NodeSideContext;

  constructor(options: CloudSideOptions, context: NodeSideContext, state: State) {
    super(
      options.kind,
      context,
      new AttachedDisk(context.server, options.serialOf(context.server), options.finder),
      state,
    );
    this.#options = options;
    this.#nodeContext = context;
  }

  override async attach(volume: VolumeOnNode, options: AttachOptions): Promise<Attachment> {
    const attachment = await super.attach(volume, options);
    if (attachment.kind !== 'device' || volume.content.type !== 'mount') return attachment;
    try {
      const use = this.#firstUse(volume, volume.content.fsType);
      if (!this.#options.isOwn(volume)) return attachment;
      if (options.isFirstUse === true) await prepareFirstUse(use, attachment);
      else await refuseBlank(use, attachment);
      return attachment;
    } catch (error) {
      await attachment.release();
      throw error;
    }
  }

  #firstUse(volume: VolumeOnNode, fsType: FirstUse['fsType']): FirstUse {
    const { dataDirectory, queue } = this.#nodeContext;
    const { diskId, isRestored, mkfsOptions } = this.#options.read(volume);
    const directory = join(dataDirectory, this.#options.kind);
    return { queue, directory, handle: volume.handle, diskId, fsType, mkfsOptions, isRestored };
  }
}
