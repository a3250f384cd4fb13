import { devicesNamed, permanentNameOf } from '../../kernel/block/disk-identity.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../kernel/device.ts';
import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { isHeld } from './held.ts';
import type { NetworkDevice, Target } from './target.ts';

interface Use {
  /** The permanent name of the disk. */
  readonly disk: string;
  readonly name: string;
}

export type UsedDevice = Pick<NetworkDevice, 'device' | 'name' | 'paths'> & Pick<Target<unknown>, 'noun'>;

/**
 * The disks that this driver's volumes are, each of one volume and through one device. A second device of the same disk comes with a session of
 * the host, or with another target or portal of one array. The kernel knows them as two disks, and lets both be mounted: two
 * filesystems with separate caches then destroy each other.
 */
export class DiskUses {
  readonly #root: string;
  /** By the volumes' handles. A volume is mounted only a while after its use began. */
  readonly #uses = new Map<string, Use>();

  /** @param root of sysfs, for tests */
  constructor(root = '/sys') {
    this.#root = root;
  }

  /** @throws FailedPrecondition if the disk is in use on this node through another device */
  async begin(queue: DiskQueue, handle: string, { device, name, noun, paths }: UsedDevice): Promise<void> {
    // A map over several paths has a separate name: the disk is known by theirs.
    const own = paths ?? [{ name, device }];
    const disk = await permanentNameOf(queue, own[0]?.device ?? device, this.#root);
    if (disk === undefined) return;
    const refusal = (other: string, use: string) =>
      new FailedPrecondition(
        `volume ${handle}: ${other} is the same ${noun} as ${name} (${disk}), and ${use}: a filesystem that is written to through both is destroyed. End that use first. If they are two, the target must give each a separate identity.`,
      );
    // Nothing is waited for between the look and the entry: of two volumes that come at once, one is refused.
    for (const [user, use] of this.#uses) {
      if (user === handle || use.disk !== disk) continue;
      throw refusal(use.name, `volume ${user} uses it`);
    }
    this.#uses.set(handle, { disk, name });
    for (const other of await devicesNamed(queue, disk, this.#root)) {
      if (own.some((each) => sameDevice(other.device, each.device))) continue;
      const devicePath = `/dev/${other.name}`;
      const live = liveFilesystem(devicePath);
      if (live !== undefined) throw refusal(other.name, `its ${live} is in use there`);
      if (await isHeld(queue, devicePath)) throw refusal(other.name, 'is mounted, or a program has it (see lsblk)');
    }
  }

  /** The volume does not use its device any more. */
  end(handle: string): void {
    this.#uses.delete(handle);
  }
}

/** The uses of this node. */
export const diskUses = new DiskUses();
