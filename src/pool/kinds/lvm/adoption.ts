import { constants } from 'node:fs';
import { probeContent } from '../../../kernel/block/blkid.ts';
import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { findHolders } from '../../../kernel/process/holders.ts';
import type { VolumeContent } from '../../../volume/capability.ts';
import { AlreadyExists, DataLoss, FailedPrecondition, InvalidArgument, NotFound } from '../../../volume/errors.ts';
import { parseFilesystemType } from '../../../volume/filesystem.ts';
import { describeHolders } from '../../../volume/holder.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Adoptable, Adoption } from '../../backend.ts';
import type { OtherLv } from './group/group-state.ts';
import { healthOf } from './group/health.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { idOfLvName, newLvName, poolLvName, thinLvName } from './names.ts';
import { recordIdIn, volumeTags } from './record-store.ts';
import { documentTags, isOwnTag, readDocument, tagsOfDocument } from './tags.ts';

/** The tag with the name that a logical volume has, or will have, while it is not ours. */
const nameOutside = 'outside';

/** The pattern of lvm(8). */
const lvNamePattern = /^(?!-)(?!\.{1,2}$)[a-zA-Z0-9+_.-]{1,127}$/;
/** /dev/mapper has all groups together. */
const lvPathPattern = /^\/dev\/(?!mapper\/)([a-zA-Z0-9+_.-]+)\/(?!\.{1,2}$)[a-zA-Z0-9+_.-]+$/;

/**
 * Logical volumes of others in the pool's group become volumes, and volumes theirs. It is a volume if it has both our tags and
 * a name of ours: so the tags are there first and go last, and what makes the difference is one rename.
 */
export class LvmAdoption implements Adoption {
  readonly #parts: LvmParts;

  constructor(parts: LvmParts) {
    this.#parts = parts;
  }

  async examine(path: string): Promise<Adoptable> {
    const lv = await this.#adoptable(path);
    return {
      ...{ path, identity: lv.uuid, sizeBytes: lv.sizeBytes, usedBytes: lv.sizeBytes },
      content: await this.#contentOf(lv.name, path),
      provisioning: 'thick',
      blockSizeBytes: this.#parts.blockSizeBytes,
    };
  }

  async adopt({ identity, path }: Adoptable, record: VolumeRecord): Promise<void> {
    const { group } = this.#parts;
    const { name, uuid } = await this.#adoptable(path);
    if (uuid !== identity) throw new FailedPrecondition(`${path} is another one than a moment ago. Try again.`);
    const tags = volumeTags(record, undefined);
    try {
      await step('adopt/draft', () =>
        group.tagOther(name, { add: [...tags, ...documentTags(nameOutside, name)], remove: [] }),
      );
      await this.#deactivate(name, path);
      await step('adopt/move', () => group.rename(name, newLvName(record.id)));
    } catch (error) {
      await this.#untag(name);
      throw error;
    }
    await step('adopt/settle', () => this.#forgetName(record.id));
  }

  async release({ id }: VolumeRecord, path: string): Promise<undefined> {
    const { group } = this.#parts;
    const name = nameIn(group, path, 'release');
    await group.refresh();
    if (group.get(name) !== undefined || group.other(name) !== undefined) {
      throw new AlreadyExists(`There is a logical volume ${path}: rename it, or release to another path (--to PATH).`);
    }
    const lv = group.find(id);
    if (lv === undefined) throw new DataLoss(`volume ${id}: its logical volume is missing.`);
    // The programs that mount it from now on find it active after a boot.
    await step('release/mark', () => group.retag(lv.name, [...lv.tags, ...documentTags(nameOutside, name)], 'y'));
    try {
      await this.#deactivate(lv.name, path);
      await step('release/move', () => group.rename(lv.name, name));
    } catch (error) {
      await this.#forgetName(id).catch(() => undefined);
      throw error;
    }
    await step('release/clear', () => this.#untag(name));
    return undefined;
  }

  async reconcile(): Promise<readonly VolumeId[]> {
    const { group } = this.#parts;
    const touched: (VolumeId | undefined)[] = [];
    for (const { name, tags } of [...group.others()]) {
      if (readDocument(nameOutside, tags) !== name) continue;
      touched.push(recordIdIn(tags));
      await this.#untag(name);
    }
    for (const { id, tags } of group.inState('volume')) {
      const volumeId = parseVolumeId(id ?? '');
      if (volumeId === undefined || readDocument(nameOutside, tags) === undefined) continue;
      touched.push(volumeId);
      await this.#forgetName(volumeId);
    }
    return touched.flatMap((id) => id ?? []);
  }

  /** @throws InvalidArgument, NotFound, FailedPrecondition: why it cannot become a volume */
  async #adoptable(path: string): Promise<OtherLv> {
    const { group } = this.#parts;
    const name = nameIn(group, path, 'adopt');
    await group.refresh();
    const lv = group.other(name);
    if (lv === undefined) throw new NotFound(`There is no logical volume ${path} (see lvs ${group.name}).`);
    const { attributes, tags } = lv;
    const refuse = (why: string) => new FailedPrecondition(`${path} cannot be adopted: ${why}.`);
    if (tags.some(isOwnTag)) throw refuse('it has tags of Holdfast (see lvs -o lv_tags)');
    if (attributes[0] !== '-') {
      throw refuse(
        'it is thin, mirrored, a snapshot, or has snapshots (see lvs -o lv_attr); copy its files to a new volume',
      );
    }
    if (attributes[1] !== 'w') throw refuse('it is read-only');
    const trouble = healthOf(lv);
    if (trouble !== undefined) throw refuse(trouble.replace(/\.$/, ''));
    if (attributes[5] === 'o') throw await this.#inUse(name, path);
    return lv;
  }

  /** Reads it while no other program has it open. */
  async #contentOf(name: string, path: string): Promise<VolumeContent> {
    const { calls, group } = this.#parts;
    const wasActive = group.deviceOf(name) !== undefined;
    try {
      await using device = (await openLv(calls, group, name, constants.O_RDONLY | constants.O_EXCL)).descriptor;
      const found = await device.during((devicePath) => probeContent(calls, devicePath));
      const fsType = found.kind === 'filesystem' ? parseFilesystemType(found.type) : undefined;
      if (fsType !== undefined) return { type: 'mount', fsType };
      if (found.kind === 'blank' || found.kind === 'partitions') return { type: 'block' };
      const what = found.kind === 'ambivalent' ? 'signatures of several kinds' : found.type;
      throw new FailedPrecondition(
        `${path} cannot be adopted: it holds ${what}, and no filesystem that a volume can have.`,
      );
    } catch (error) {
      throw isErrno(error, 'EBUSY') ? await this.#inUse(name, path) : error;
    } finally {
      if (!wasActive) await group.deactivate([name]).catch(() => undefined);
    }
  }

  /** From now on it is activated only on demand. @throws FailedPrecondition if another program has it open */
  async #deactivate(name: string, path: string): Promise<void> {
    const { group } = this.#parts;
    if (group.deviceOf(name) === undefined) return;
    if (!(await group.deactivate([name]))) throw await this.#inUse(name, path);
  }

  async #inUse(name: string, path: string): Promise<FailedPrecondition> {
    const device = this.#parts.group.deviceOf(name)?.device;
    const devices = device === undefined ? [] : [{ device, devicePath: mappedPath(device) }];
    const found = await findHolders({ devices }, 'all');
    return new FailedPrecondition(`${path} is in use ${describeHolders(found)}: stop the workload first.`);
  }

  /** It is another's then, wholly. One that is a volume by now stays one. */
  async #untag(name: string): Promise<void> {
    const { group } = this.#parts;
    await group.refresh();
    const own = group.other(name)?.tags.filter(isOwnTag) ?? [];
    if (own.length > 0) await group.tagOther(name, { add: [], remove: own });
  }

  async #forgetName(id: VolumeId): Promise<void> {
    const { group } = this.#parts;
    const lv = group.find(id);
    if (lv === undefined) return;
    const note = tagsOfDocument(nameOutside, lv.tags);
    // Our logical volumes are activated only for their use.
    await group.retag(
      lv.name,
      lv.tags.filter((tag) => !note.includes(tag)),
      'n',
    );
  }
}

/** The name in the group of this pool, of a volume that is not ours. @throws InvalidArgument */
export function nameIn(
  { name: vgName, poolName }: { readonly name: string; readonly poolName: string },
  path: string,
  use: 'adopt' | 'release',
): string {
  const start = `/dev/${vgName}/`;
  const name = path.startsWith(start) ? path.slice(start.length) : '';
  const isOurs = idOfLvName(name) !== undefined || name === poolLvName || name === thinLvName;
  if (lvNamePattern.test(name) && !isOurs) return name;
  const otherGroup = lvPathPattern.exec(path)?.[1];
  if (use === 'adopt' && otherGroup !== undefined && otherGroup !== vgName) {
    throw new InvalidArgument(
      `${path} is not in volume group ${vgName}, which pool ${poolName} is in: name a pool of ${otherGroup} (holdfast pools).`,
    );
  }
  throw new InvalidArgument(
    `'${path}' names no logical volume that pool ${poolName} could adopt or release to: write ${start}NAME.`,
  );
}
