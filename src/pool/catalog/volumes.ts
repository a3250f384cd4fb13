import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { resizeFile } from '../../kernel/file/file.ts';
import { trim } from '../../kernel/file/filesystem.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted } from '../../volume/errors.ts';
import { finishAll } from '../../volume/finish-all.ts';
import type { VolumeId } from '../../volume/id.ts';
import { type Publication, serializeRecord, type VolumeRecord, type VolumeSource } from '../../volume/record.ts';
import { formatBytes, granularityBytes, larger } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import { freezeTarget, isAtRest } from '../freeze/freeze-target.ts';
import { openMounted } from '../freeze/mounted.ts';
import { blockSizeOf } from '../kinds/image/block-size.ts';
import { requireWhole } from '../kinds/image/image-file.ts';
import type { ImageSource } from '../kinds/image/image-maker.ts';
import { punchUnwritten } from '../kinds/image/unwritten.ts';
import type { VolumeChanges, VolumeSpec } from '../pool.ts';
import { replaceFile, writeNewFile } from '../records/durable-file.ts';
import { allocatedBytesOf } from '../space/filesystem-space.ts';
import { attachedHere } from './in-use.ts';
import type { ImageParts } from './parts.ts';
import { copyInUse } from './snapshots.ts';

/** An image to clone, and the volume it belongs to if that may be in use. */
interface CloneSource extends ImageSource {
  readonly volumeId: VolumeId | undefined;
}

/** How volumes are made and changed. */
export class ImageVolumes {
  readonly #parts: ImageParts;

  constructor(parts: ImageParts) {
    this.#parts = parts;
  }

  /** @throws NotFound, DataLoss */
  require(id: VolumeId): VolumeRecord {
    const record = this.#parts.index.get(id);
    if (record === undefined) throw new NotFound(`There is no volume ${id} in pool ${this.#parts.name}.`);
    return record;
  }

  /** Made in tmp/ and renamed when whole: before the rename nothing exists, after it everything does. */
  async create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    const { devices, index, queue, layout, maker, space, syncs, trash, unsettled } = this.#parts;
    if (index.get(spec.id) !== undefined) throw new AlreadyExists(`volume ${spec.id} exists already.`);
    const from = source === undefined ? undefined : await this.#imageOf(source);
    const record: VolumeRecord = {
      id: spec.id,
      name: spec.name,
      sizeBytes: spec.sizeBytes,
      content: spec.content,
      accessModes: spec.accessModes,
      provisioning: spec.provisioning,
      parameters: spec.parameters,
      blockSizeBytes: from?.blockSizeBytes ?? blockSizeOf(spec, this.#parts.blockSizeBytes),
      createdAt: new Date().toISOString(),
      ...(source === undefined ? {} : { source }),
      ...(spec.mutableParameters === undefined ? {} : { mutableParameters: spec.mutableParameters }),
      ...(spec.undeleteSeconds === undefined ? {} : { undeleteSeconds: spec.undeleteSeconds }),
      ...(spec.ephemeral === undefined ? {} : { ephemeral: spec.ephemeral }),
    };
    const isCopy = source !== undefined && maker.cloning === 'copy';
    if (isCopy && source.type === 'volume' && (await devices.holder(source.id)) !== undefined) {
      throw copyInUse(source.id, this.#parts.name);
    }
    const directory = isCopy ? layout.copyDraft(spec.id) : layout.newDraft(spec.id);
    const data = join(directory, 'data');
    let place = directory;
    // What a try that was cut short has copied it need not ask for again.
    const copiedBytes = isCopy ? await allocatedBytesOf(queue, data) : 0n;
    using held = await space.hold({
      newBytes: larger(0n, spec.sizeBytes - copiedBytes),
      provisioning: spec.provisioning,
      taken: async () => (await allocatedBytesOf(queue, data)) - copiedBytes,
      sourceIds: source?.type === 'volume' && !isCopy ? [source.id] : [],
    });
    try {
      await step('create/directory', () => queue.run(() => mkdir(directory, { mode: 0o700, recursive: isCopy })));
      const writeRecord = () =>
        step('create/record', async () => {
          const path = join(directory, 'volume.json');
          // The draft of a copy may have one from a try that was cut short.
          if (isCopy) await queue.run(() => rm(path, { force: true }));
          await writeNewFile(queue, path, serializeRecord(record));
        });
      if (from === undefined) await this.#makeBlank(spec, record.blockSizeBytes, directory, writeRecord);
      else {
        await finishAll([this.#cloneInto(spec, from, data), writeRecord()]);
        await syncs.sync(queue, directory);
        if (!isCopy) await held.confirm();
      }
      await step('create/commit', async () => {
        await queue.run(() => rename(directory, layout.volume(spec.id)));
        place = layout.volume(spec.id);
        await syncs.sync(queue, layout.volumes);
      });
    } catch (error) {
      // A copy is kept: the retry goes on with it.
      if (!isCopy || place !== directory) {
        // Under another name: what is queued is unlinked later, when the retry's volume may have this one.
        await trash.discard(place, layout.newTrash(spec.id)).catch(() => undefined);
      }
      if (place !== directory) await unsettled.recheck([spec.id]);
      throw this.#explain(error, spec.sizeBytes);
    }
    index.put(record);
    return record;
  }

  /** The image grows before the record says so; cut short in between, it is finished by the next start. */
  async grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord> {
    const { devices, index, queue, layout, space } = this.#parts;
    const record = this.require(id);
    const grown = { ...record, sizeBytes };
    await requireWhole(queue, layout.image(record));
    if (sizeBytes > record.sizeBytes) {
      const newBytes = sizeBytes - record.sizeBytes;
      using _space = await space.hold({ newBytes, provisioning: record.provisioning });
      try {
        await step('grow/data', () => this.#enlarge(grown));
        await step('grow/record', () => this.#record(grown));
      } catch (error) {
        throw this.#explain(error, sizeBytes);
      }
      index.put(grown);
    }
    // Also on a replay: the first try may have died before its devices knew.
    await devices.refreshSize(id);
    return this.require(id);
  }

  /**
   * Of images that have grown, and their records not yet: their filesystems would grow beyond what is said of them, and
   * what is made from them be too small.
   */
  async finishGrowth(): Promise<VolumeId[]> {
    const { reserve, devices, index, queue, layout, syncs } = this.#parts;
    const finished: VolumeId[] = [];
    for (const record of [...index.all()]) {
      const { id } = record;
      const image = await statusOf(queue, layout.data(id)).catch(ignoreMissing);
      if (image === undefined) continue;
      const sizeBytes = image.sizeBytes - (image.sizeBytes % granularityBytes);
      if (sizeBytes <= record.sizeBytes) continue;
      const grown = { ...record, sizeBytes };
      await step('grow/record', () =>
        reserve.withReserve(queue, () => replaceFile(queue, syncs, layout.record(id), serializeRecord(grown))),
      );
      index.put(grown);
      await devices.refreshSize(id);
      finished.push(id);
    }
    return finished;
  }

  async modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord> {
    const { index, queue, layout, space } = this.#parts;
    const record = this.require(id);
    if (changes.provisioning !== undefined) await requireWhole(queue, layout.image(record));
    const { provisioning = record.provisioning, undeleteSeconds = record.undeleteSeconds } = changes;
    const modified = { ...record, provisioning, ...(undeleteSeconds === undefined ? {} : { undeleteSeconds }) };
    try {
      // Also if the record says so already: a first try may have died in between.
      if (changes.provisioning === 'thick') await this.#makeThick(record);
      if (changes.provisioning === 'thin') {
        space.willWrite(id);
        await step('modify/data', () => this.#releaseUnwritten(record));
      }
      await step('modify/record', () => this.#record(modified));
    } catch (error) {
      throw this.#explain(error, record.sizeBytes);
    }
    index.put(modified);
    return modified;
  }

  async setPublication(id: VolumeId, publication: Publication | undefined): Promise<VolumeRecord> {
    const { reserve, devices, index, queue } = this.#parts;
    const { publication: _before, ...unpublished } = this.require(id);
    const device = publication === undefined ? await devices.holder(id) : undefined;
    if (device !== undefined) throw await attachedHere(id, device);
    const record = publication === undefined ? unpublished : { ...unpublished, publication };
    await step('publication/record', () => reserve.withReserve(queue, () => this.#record(record)));
    index.put(record);
    return record;
  }

  async #record(record: VolumeRecord): Promise<void> {
    const { queue, layout, syncs, unsettled } = this.#parts;
    await unsettled.change([record.id], () =>
      replaceFile(queue, syncs, layout.record(record.id), serializeRecord(record)),
    );
  }

  /** All or nothing: some filesystems keep what they have allocated before they ran full, and make the file longer. */
  async #enlarge(grown: VolumeRecord): Promise<void> {
    const { queue, layout, maker } = this.#parts;
    const path = layout.data(grown.id);
    const { sizeBytes } = await statusOf(queue, path);
    try {
      await maker.enlarge(path, grown);
    } catch (error) {
      // No device shows what lies behind the old end yet. Blocks there go when a longer file is cut off.
      await resizeFile(queue, path, larger(sizeBytes, grown.sizeBytes)).catch(() => undefined);
      await resizeFile(queue, path, sizeBytes).catch(() => undefined);
      throw error;
    }
  }

  /** Its size was promised before; now it takes all of it, which must be there however much is promised. */
  async #makeThick(record: VolumeRecord): Promise<void> {
    const { queue, layout, maker, space } = this.#parts;
    const { id, sizeBytes } = record;
    const beforeBytes = await allocatedBytesOf(queue, layout.data(id));
    const taken = async () => (await allocatedBytesOf(queue, layout.data(id))) - beforeBytes;
    using _space = await space.hold({ newBytes: 0n, takenBytes: larger(0n, sizeBytes - beforeBytes), taken });
    try {
      await step('modify/data', () => maker.enlarge(layout.data(id), { sizeBytes, provisioning: 'thick' }));
    } catch (error) {
      // What a refused call has taken so far it gives back, unless its blocks may be in use by now.
      if (record.provisioning === 'thin') await this.#releaseUnwritten(record).catch(() => undefined);
      throw error;
    } finally {
      space.hasChanged(id);
    }
  }

  /**
   * Gives back blocks that were reserved but never written. Of a filesystem in use it is the filesystem that knows what
   * is free, and says so to its device (FITRIM); to look for holes from outside would race with its writes.
   */
  async #releaseUnwritten({ content, id }: VolumeRecord): Promise<void> {
    const { devices, queue, layout } = this.#parts;
    const inUse = await devices.inUse(id);
    if (inUse.length === 0) return punchUnwritten(queue, layout.data(id));
    const device = inUse.find(({ readonly }) => !readonly);
    const mounted =
      content.type === 'mount' && device !== undefined
        ? await openMounted(queue, await readMountTable(queue), device)
        : undefined;
    if (mounted === undefined) {
      throw new FailedPrecondition(
        `volume ${id} is in use without a mounted filesystem, so its unwritten blocks cannot be released now: stop its pod first.`,
      );
    }
    await using directory = mounted;
    await trim(queue, directory);
  }

  /** mkfs takes longer than all the rest, so the names are put on the disk beside it. */
  async #makeBlank(
    spec: VolumeSpec,
    blockSizeBytes: number,
    directory: string,
    writeRecord: () => Promise<void>,
  ): Promise<void> {
    const { queue, maker, syncs } = this.#parts;
    const image = await step('create/data', () => maker.create(join(directory, 'data'), spec));
    try {
      await finishAll([
        maker.complete(spec, image, blockSizeBytes),
        writeRecord().then(() => syncs.sync(queue, directory)),
      ]);
    } finally {
      image.closeLater();
    }
  }

  async #cloneInto(spec: VolumeSpec, from: CloneSource, data: string): Promise<void> {
    const { freezer, maker } = this.#parts;
    const { volumeId } = from;
    const target = volumeId === undefined ? undefined : await freezeTarget(this.#parts, this.require(volumeId));
    const clone = maker.clone(from, data);
    await freezer.whileFrozen(target === undefined ? [] : [target], {
      ahead: () => step('create/ahead', () => clone.goAhead()),
      work: (signal) =>
        step('create/clone', () => clone.complete({ isAtRest: target === undefined || isAtRest(target), signal })),
    });
    await step('create/identity', () => maker.adopt(spec, from, data));
  }

  /** @throws NotFound, DataLoss */
  async #imageOf(source: VolumeSource): Promise<CloneSource> {
    const { queue, layout, snapshotIndex } = this.#parts;
    if (source.type === 'volume') {
      const volume = this.require(source.id);
      await requireWhole(queue, layout.image(volume));
      return { ...volume, path: layout.data(source.id), volumeId: source.id };
    }
    const snapshot = snapshotIndex.get(source.id);
    if (snapshot === undefined) throw new NotFound(`There is no snapshot ${source.id} in pool ${this.#parts.name}.`);
    await requireWhole(queue, layout.snapshotImage(snapshot));
    return { ...snapshot, path: layout.snapshotData(source.id), volumeId: undefined };
  }

  #explain(error: unknown, sizeBytes: bigint): unknown {
    if (isErrno(error, 'ENOSPC', 'EDQUOT')) {
      return new ResourceExhausted(
        `pool ${this.#parts.name} has no room for ${formatBytes(sizeBytes)} (its filesystem is full): delete volumes or give it more space.`,
      );
    }
    return error;
  }
}
