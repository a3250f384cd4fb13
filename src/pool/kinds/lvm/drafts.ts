import { formatVolume } from '../../../filesystems/format-volume.ts';
import { giveNewIdentity } from '../../../filesystems/identity.ts';
import { sizeOfDevice } from '../../../kernel/block/block.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import { defaultLayout, type Layout } from '../../../volume/layout.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import { step } from '../../../volume/step.ts';
import type { WipePolicy } from '../../../volume/wipe-policy.ts';
import type { Clone, Draft, DraftOptions, NewData, Recorded, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { copyLv } from './copy.ts';
import type { OwnLv } from './group/group-state.ts';
import { wholeBytes } from './layout.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { newLvName } from './names.ts';
import { snapshotTags, tagsWhenDeleted, volumeTags } from './record-store.ts';
import { stateTag, wipeOf, wipeTags } from './tags.ts';
import type { ThinPool } from './thin/thin-pool.ts';

type LvOptions = Pick<DraftOptions, 'layout' | 'wipe'>;

/** A logical volume whose tag says that it is a draft. One change of its tags turns it into a volume or snapshot. */
abstract class LvDraft<Id extends VolumeId | SnapshotId> implements Draft {
  protected readonly parts: LvmParts;
  readonly lvName: string;
  /** Its device is going to be used. */
  protected abstract readonly isUsed: boolean;
  /** undefined: it is not whole yet. */
  protected finalTags: readonly string[] | undefined;
  /** Snapshots are linear, whatever their source is. */
  protected readonly layout: Layout;
  protected wipe: WipePolicy | undefined;
  #isCommitting = false;

  constructor(parts: LvmParts, id: Id, { layout = defaultLayout, wipe }: LvOptions = {}) {
    this.parts = parts;
    this.layout = layout;
    this.wipe = wipe;
    this.lvName = newLvName(id);
  }

  /** Its name is its own already, and LVM has no names without content. */
  async begin(): Promise<void> {}

  async takenBytes(): Promise<bigint> {
    const { group, thin } = this.parts;
    if (thin !== undefined) return (await thin.takenBytes(this.lvName)) ?? 0n;
    const lv = group.get(this.lvName);
    return lv === undefined ? 0n : group.takenBytes(lv);
  }

  /** All of it at once: nothing writes to the source. After an interruption it starts again. */
  clone(source: Recorded): Clone {
    const { calls, group, idle, thin } = this.parts;
    if (thin !== undefined) return this.#thinClone(thin, source);
    return {
      complete: async ({ signal }) => {
        const from = this.#find(source);
        const { sizeBytes } = source.record;
        if (group.deviceOf(from.name) === undefined) idle.add(from.name);
        await using device = (await openLv(calls, group, from.name)).descriptor;
        refuseLarger(source, sizeOfDevice(device), wholeBytes(sizeBytes, from, group.state.extentBytes));
        // It holds a copy of its source's data, so it is wiped in the same way.
        this.wipe ??= wipeOf(from.tags);
        await this.create(sizeBytes);
        await copyLv(calls, group, { from: device, toName: this.lvName, sizeBytes, signal });
      },
    };
  }

  /** Takes effect at once, also while the source is written to. */
  #thinClone(thin: ThinPool, source: Recorded): Clone {
    const { idle } = this.parts;
    const tags = [stateTag('draft')];
    let preparing: Promise<bigint> | undefined;
    const prepare = (from: OwnLv) => {
      idle.add(this.lvName);
      preparing ??= thin.instant.prepare(from, this.lvName, tags);
      return preparing;
    };
    return {
      goAhead: async () => {
        const from = this.#find(source);
        if (this.#isInUse(from)) await prepare(from);
      },
      complete: async ({ signal }) => {
        const from = this.#find(source);
        if (preparing === undefined && !this.#isInUse(from)) {
          idle.add(this.lvName);
          await thin.clone(from, this.lvName, tags, this.isUsed);
          return;
        }
        await thin.instant.take(from, this.lvName, await prepare(from), signal);
      },
    };
  }

  #isInUse({ name }: OwnLv): boolean {
    const { group, idle } = this.parts;
    return group.deviceOf(name) !== undefined && !idle.has(name);
  }

  #find(source: Recorded): OwnLv {
    const lv = this.parts.group.find(source.record.id);
    if (lv === undefined) throw this.parts.missing(source);
    return lv;
  }

  async commit(): Promise<void> {
    this.#isCommitting = true;
    await this.parts.group.retag(this.lvName, this.finalTags ?? []);
  }

  async discard(): Promise<TrashRef | undefined> {
    const { group } = this.parts;
    if (this.#isCommitting) await group.refresh();
    const lv = group.get(this.lvName);
    if (lv === undefined) return undefined;
    if (lv.state !== 'draft') await group.retag(lv.name, tagsWhenDeleted(lv, undefined));
    return lv.name;
  }

  protected async create(sizeBytes: bigint): Promise<void> {
    const { group, idle, thin } = this.parts;
    idle.add(this.lvName);
    const { layout, lvName, wipe } = this;
    if (thin !== undefined) return thin.create(lvName, sizeBytes, [stateTag('draft')]);
    await group.create(lvName, { sizeBytes, layout, tags: [stateTag('draft'), ...wipeTags(wipe)] });
  }
}

/**
 * A source that was made larger by hand would be copied in part, and its filesystem would not be whole. @throws
 * FailedPrecondition
 */
function refuseLarger({ kind, record }: Recorded, deviceBytes: bigint, expectedBytes: bigint): void {
  if (deviceBytes <= expectedBytes) return;
  throw new FailedPrecondition(
    `${kind} ${record.id}: its logical volume has become larger than it is (${deviceBytes} bytes): expand its claim to that size first. Nothing was copied.`,
  );
}

/** A volume on its way. */
export class LvVolumeDraft extends LvDraft<VolumeId> implements VolumeDraft {
  protected readonly isUsed = true;

  async make(record: VolumeRecord, data: NewData): Promise<void> {
    const { blockSizeBytes, content, mkfsArguments, sizeBytes } = data;
    await step('create/data', () => this.create(sizeBytes));
    if (content.type === 'mount') {
      const { calls, formatQueue } = this.parts;
      const withDevice = (work: (devicePath: string) => Promise<void>) => this.withDevice(blockSizeBytes, work);
      const filesystem = { fsType: content.fsType, sizeBytes, blockSizeBytes, mkfsArguments };
      await step('create/format', () => formatVolume({ calls, formatQueue, withDevice }, filesystem));
    }
    this.finalTags = volumeTags(record, this.wipe);
  }

  async complete(record: VolumeRecord, data: Omit<NewData, 'mkfsArguments'>): Promise<void> {
    const { calls, formatQueue, group } = this.parts;
    const { blockSizeBytes, content } = data;
    await step('create/identity', async () => {
      await group.extend(this.lvName, data.sizeBytes);
      if (content.type !== 'mount') return;
      await using lv = (await openLv(calls, group, this.lvName)).descriptor;
      const { fsType } = content;
      await this.withDevice(blockSizeBytes, (path) =>
        formatQueue.run(() => giveNewIdentity(calls, { path, fsType, blockSizeBytes })),
      );
      await syncFile(calls, lv);
    });
    this.finalTags = volumeTags(record, this.wipe);
  }

  async withDevice<T>(_blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T> {
    const { descriptor, devicePath } = await openLv(this.parts.calls, this.parts.group, this.lvName);
    // Open for as long as that takes: so nothing else is given its number.
    await using _held = descriptor;
    return await work(devicePath);
  }
}

/** A snapshot on its way. */
export class LvSnapshotDraft extends LvDraft<SnapshotId> implements SnapshotDraft {
  protected readonly isUsed = false;

  /** One whose content comes from elsewhere. */
  createBlank(sizeBytes: bigint): Promise<void> {
    return this.create(sizeBytes);
  }

  async complete(record: SnapshotRecord): Promise<void> {
    this.finalTags = snapshotTags(record, this.wipe);
  }
}
