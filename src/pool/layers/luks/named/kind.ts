import { mappedDevice } from '../../../../kernel/block/device-mapper.ts';
import { isDeviceGone } from '../../../../kernel/block/device-node.ts';
import { isMapWithoutPaths } from '../../../../kernel/block/multipath.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { singleNodeModes } from '../../../../volume/capability.ts';
import { encryptionTypes } from '../../../../volume/encryption.ts';
import { InvalidArgument } from '../../../../volume/errors.ts';
import type { VolumeHandle } from '../../../../volume/handle.ts';
import { parseVolumeId } from '../../../../volume/id.ts';
import { mapperName } from '../../../../volume/mapper-name.ts';
import { seenOnDevice } from '../../../device-content.ts';
import type { ContextContent, NodeKind, VolumeOnNode } from '../../../node-side.ts';
import { over } from '../../over.ts';
import { belowNamed, encryptionKey, isEncrypted } from './below.ts';

/**
 * Encryption for volumes that a PersistentVolume names, over any kind whose volumes are devices that a node attaches
 * (docs/encryption.md). Volumes without the key `encryption` pass through it as they are.
 */
export function encryptable(kind: NodeKind): NodeKind {
  const { askServer, diskOf, fateOf, requireHandle } = kind;
  return over<NodeKind>(kind, {
    keys: [...kind.keys, encryptionKey],
    read(context, demand) {
      const { [encryptionKey]: type, ...rest } = context;
      const content = kind.read(rest, demand);
      return type === undefined ? content : encrypted(kind, type, content);
    },
    requireHandle(handle, { [encryptionKey]: type, ...rest }) {
      if (type !== undefined && parseVolumeId(handle) !== undefined) throw madeHere(handle);
      requireHandle?.(handle, rest);
    },
    shows(volume, seen) {
      const shown = kind.shows(belowNamed(volume), seen);
      if (shown !== undefined || !isEncrypted(volume) || seen.device === undefined) return shown;
      return isMapperOf(kind, volume, seen.device) ? seenOnDevice(seen) : undefined;
    },
    serverOf: (volume) => kind.serverOf(belowNamed(volume)),
    diskOf: diskOf && ((volume) => diskOf(belowNamed(volume))),
    fateOf: fateOf && ((volume) => fateOf(belowNamed(volume))),
    askServer: askServer && ((volume) => askServer(belowNamed(volume))),
    async open(context) {
      const { encryptableSide } = await import('./side.ts');
      return encryptableSide(await kind.open(context), context);
    },
  });
}

function encrypted({ name }: NodeKind, type: string, content: ContextContent): ContextContent {
  const known = encryptionTypes.find((each) => each === type);
  if (known === undefined) {
    throw new InvalidArgument(
      `volumeAttributes: encryption is ${JSON.stringify(type)}; it can be ${encryptionTypes.join(', ')}, or left out.`,
    );
  }
  if (content.content.type === 'directory') {
    throw new InvalidArgument(
      `volumeAttributes: encryption needs a device, and this volume of kind ${name} is a directory: leave it out.`,
    );
  }
  // Each node would make a header, and keep a separate mapper, over the same device.
  return { ...content, accessModes: singleNodeModes };
}

/** Its filesystem was made without encryption, or will be: and a blank disk of it has lost its data. */
function madeHere(handle: VolumeHandle): InvalidArgument {
  return new InvalidArgument(
    `volume ${handle} was made by this driver, without encryption: leave encryption out of its volumeAttributes, or write another volumeHandle for a disk that was made elsewhere.`,
  );
}

/** One whose device is gone, as its server was given up, is known by its name alone: it must be unmounted. */
function isMapperOf(kind: NodeKind, volume: VolumeOnNode, device: DeviceNumber): boolean {
  const mapper = mappedDevice(device);
  if (mapper?.name !== mapperName(volume.handle)) return false;
  return mapper.backing.every(
    (each) =>
      kind.shows(belowNamed(volume), { device: each, mount: undefined }) !== undefined ||
      isDeviceGone(each) ||
      isMapWithoutPaths(each),
  );
}
