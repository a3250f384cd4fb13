import { sameDevice } from '../../../kernel/device.ts';
import { singleNodeModes } from '../../../volume/capability.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import { type DiskFinder, NvmeFinder } from '../../cloud-disk/attached/finder.ts';
import { deviceContent, seenOnDevice } from '../../device-content.ts';
import type { NodeKind, VolumeOnNode } from '../../node-side.ts';
import { ebsKeys, readEbsContext, serialOf } from './context.ts';

const kind = 'aws-ebs';

/** EBS volumes, which EC2 attaches to the node. @param finder for tests */
export function ebsNodeKind(finder: DiskFinder = new NvmeFinder()): NodeKind {
  const diskOf = ({ context }: Pick<VolumeOnNode, 'context'>) => readEbsContext(context).volumeId;
  return {
    name: kind,
    traits: { detaching: 'explicit', accessModes: singleNodeModes },
    namingKeys: ['volumeId'],
    keys: ebsKeys,
    read(context, demand) {
      readEbsContext(context);
      const content = deviceContent(demand, (fsType) => `an EBS volume holds a filesystem itself: ${fsType} is none.`);
      return { accessModes: singleNodeModes, ...content };
    },
    requireHandle(handle, context) {
      const { volumeId } = readEbsContext(context);
      if (handle === volumeId || parseVolumeId(handle) !== undefined) return;
      throw new InvalidArgument(
        `volumeHandle of an EBS volume that was not made here is its id: write ${volumeId}, not ${handle}.`,
      );
    },
    shows(volume, { device, mount }) {
      const isIt = finder.find(serialOf(diskOf(volume))).some((each) => sameDevice(each.device, device));
      return isIt ? seenOnDevice({ mount }) : undefined;
    },
    serverOf: diskOf,
    async open(context) {
      const { openCloudSide } = await import('../../cloud-disk/attached/side.ts');
      const options = {
        ...{ kind, finder, serialOf },
        isOwn: ({ handle }: VolumeOnNode) => parseVolumeId(handle) !== undefined,
        read({ context: given }: VolumeOnNode) {
          const { isRestored, mkfsOptions, volumeId } = readEbsContext(given);
          return { diskId: volumeId, isRestored, mkfsOptions };
        },
      };
      return openCloudSide(options, context);
    },
  };
}
