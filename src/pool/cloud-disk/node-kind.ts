import { sameDevice } from '../../kernel/device.ts';
import { singleNodeModes } from '../../volume/capability.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { deviceContent, seenOnDevice } from '../device-content.ts';
import type { NodeKind, VolumeOnNode } from '../node-side.ts';
import type { DiskFinder } from './attached/finder.ts';
import { cloudVolumeKeys, type DiskIdForm, readCloudVolume } from './context.ts';

export interface CloudNodeOptions {
  readonly form: DiskIdForm;
  /** For messages: `an EBS volume`. */
  readonly noun: string;
  readonly finder: DiskFinder;
  /** The serial number of a disk's device. */
  serialOf(diskId: string): string;
}

/** Disks that a cloud attaches to the node. */
export function cloudNodeKind({ finder, form, noun, serialOf }: CloudNodeOptions): NodeKind {
  const { kind } = form;
  const diskOf = ({ context }: Pick<VolumeOnNode, 'context'>) => readCloudVolume(form, context).volumeId;
  return {
    name: kind,
    traits: { detaching: 'explicit', accessModes: singleNodeModes },
    namingKeys: ['volumeId'],
    keys: cloudVolumeKeys,
    read(context, demand) {
      readCloudVolume(form, context);
      const content = deviceContent(demand, (fsType) => `${noun} holds a filesystem itself: ${fsType} is none.`);
      return { accessModes: singleNodeModes, ...content };
    },
    requireHandle(handle, context) {
      const { volumeId } = readCloudVolume(form, context);
      if (handle === volumeId || parseVolumeId(handle) !== undefined) return;
      throw new InvalidArgument(
        `volumeHandle of ${noun} that was not made here is its id: write ${volumeId}, not ${handle}.`,
      );
    },
    shows(volume, { device, mount }) {
      const isIt = finder.find(serialOf(diskOf(volume))).some((each) => sameDevice(each.device, device));
      return isIt ? seenOnDevice({ mount }) : undefined;
    },
    serverOf: diskOf,
    diskOf,
    async open(context) {
      const { openCloudSide } = await import('./attached/side.ts');
      const options = {
        ...{ kind, finder, serialOf },
        isOwn: ({ handle }: VolumeOnNode) => parseVolumeId(handle) !== undefined,
        read({ context: given }: VolumeOnNode) {
          const { isRestored, mkfsOptions, volumeId } = readCloudVolume(form, given);
          return { diskId: volumeId, isRestored, mkfsOptions };
        },
      };
      return openCloudSide(options, context);
    },
  };
}
