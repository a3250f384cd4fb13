import { requireGrowable } from '../../filesystems/growable.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { NotFound, OutOfRange } from '../../volume/errors.ts';
import { fewAtOnce } from '../../volume/flow/few-at-once.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { Publication, VolumeRecord } from '../../volume/record.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { granularityBytes, larger } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import type { Thickness } from '../backend.ts';
import type { VolumeChanges } from '../pool.ts';
import { explainFull } from './full.ts';
import { refuseInUse } from './in-use.ts';
import type { CatalogParts } from './parts.ts';

/** Changes volumes. */
export class Volumes {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  /** @throws NotFound, DataLoss */
  require(id: VolumeId): VolumeRecord {
    const record = this.#parts.index.get(id);
    if (record === undefined) throw new NotFound(`There is no volume ${id} in pool ${this.#parts.name}.`);
    return record;
  }

  /** The volume, which opens with the key that these secrets have if they say that it had another one. */
  async withKeyOf(id: VolumeId, secrets: Secrets | undefined): Promise<VolumeRecord> {
    const { backend, index } = this.#parts;
    const record = this.require(id);
    const { changeKey } = backend.extras;
    if (record.encryption === undefined || secrets === undefined || changeKey === undefined) return record;
    const keyId = await changeKey(record, secrets);
    if (keyId === undefined || keyId === record.encryption.keyId) return record;
    const renamed = { ...record, encryption: { ...record.encryption, keyId } };
    await step('rekey/record', () => this.#record(renamed));
    index.put(renamed);
    return renamed;
  }

  /** The data grows before the record says so; cut short in between, it is finished by the next start. */
  async grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord> {
    const { backend, index, name, space } = this.#parts;
    const record = this.require(id);
    const { offline, online } = backend.traits.expansion;
    if (!offline && !online) {
      // Nothing has grown of which its devices would have to know.
      if (sizeBytes <= record.sizeBytes) return record;
      throw new OutOfRange(
        `volume ${id} has ${record.sizeBytes} bytes, all that pool ${name} (${backend.kind}) can give it: it does not grow.`,
      );
    }
    const grown = { ...record, sizeBytes };
    await backend.provisioner.verify({ kind: 'volume', record });
    if (sizeBytes > record.sizeBytes) {
      await this.#requireGrowable(record, sizeBytes);
      const { layouts } = backend.space;
      const newBytes = layouts?.growthBytes(id, storedBytes(grown)) ?? sizeBytes - record.sizeBytes;
      using _space = await space.hold({ newBytes, provisioning: record.provisioning, isGrowth: true });
      try {
        await step('grow/data', () => backend.provisioner.grow(grown));
        await step('grow/record', () => this.#record(grown));
      } catch (error) {
        throw explainFull(error, name, sizeBytes);
      }
      index.put(grown);
    }
    // Also on a replay: the first try may have died before its devices knew.
    await backend.attacher.grown?.(id);
    return this.require(id);
  }

  /** Where its device can be read now; otherwise the node finds out at the next stage, and mounts it as it is. */
  async #requireGrowable({ content, id }: VolumeRecord, wantedBytes: bigint): Promise<void> {
    if (content.type !== 'mount') return;
    const { attacher, provisioner, queue } = this.#parts.backend;
    const device = (await attacher.attached(id)).find((each) => each.kind === 'device');
    const path = device?.devicePath ?? provisioner.dataFile?.(id);
    if (path !== undefined) await requireGrowable(queue, path, { fsType: content.fsType, id, wantedBytes });
  }

  /**
   * Finishes the growth of volumes whose data has grown, but not their records: otherwise their filesystems would grow beyond
   * the recorded size, and their clones be too small.
   */
  async finishGrowth(): Promise<VolumeId[]> {
    const { backend, index } = this.#parts;
    const finished: VolumeId[] = [];
    const looks = await fewAtOnce([...index.all()], async (record) => ({
      record,
      presentBytes: (await backend.provisioner.sizeOf(record.id)) ?? 0n,
    }));
    for (const { presentBytes, record } of looks) {
      const usableBytes = larger(0n, presentBytes - (storedBytes(record) - record.sizeBytes));
      const sizeBytes = usableBytes - (usableBytes % granularityBytes);
      if (sizeBytes <= record.sizeBytes) continue;
      const grown = { ...record, sizeBytes };
      await step('grow/record', () => backend.records.writeVolume(grown));
      index.put(grown);
      await backend.attacher.grown?.(record.id);
      finished.push(record.id);
    }
    return finished;
  }

  async modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord> {
    const { backend, index, name, space } = this.#parts;
    const record = this.require(id);
    const { thickness } = backend.extras;
    const { provisioning = record.provisioning, undeleteSeconds = record.undeleteSeconds } = changes;
    const modified = { ...record, provisioning, ...(undeleteSeconds === undefined ? {} : { undeleteSeconds }) };
    if (changes.provisioning !== undefined) await backend.provisioner.verify({ kind: 'volume', record });
    try {
      // Also if the record says so already: a first try may have died in between.
      if (changes.provisioning === 'thick' && thickness !== undefined) await this.#makeThick(record, thickness);
      if (changes.provisioning === 'thin' && thickness !== undefined) {
        space.willWrite(id);
        await step('modify/data', () => thickness.makeThin(record));
      }
      await step('modify/record', () => this.#record(modified));
    } catch (error) {
      throw explainFull(error, name, record.sizeBytes);
    }
    index.put(modified);
    return modified;
  }

  async setPublication(
    id: VolumeId,
    publication: Publication | undefined,
    others: readonly Publication[],
  ): Promise<VolumeRecord> {
    const { index } = this.#parts;
    const { otherPublications: _others, publication: _before, ...unpublished } = this.require(id);
    const record: VolumeRecord = {
      ...unpublished,
      ...(publication !== undefined && { publication }),
      ...(others.length > 0 && { otherPublications: others }),
    };
    if (publication === undefined) await refuseInUse(this.#parts, record);
    await step('publication/record', () => this.#record(record));
    index.put(record);
    return record;
  }

  async #record(record: VolumeRecord): Promise<void> {
    const { backend, unsettled } = this.#parts;
    await unsettled.change([record.id], () => backend.records.writeVolume(record));
  }

  /** Its size was provisioned before; now it takes all of it, which must be there however much is provisioned. */
  async #makeThick(record: VolumeRecord, thickness: Thickness): Promise<void> {
    const { backend, space } = this.#parts;
    const { id } = record;
    const beforeBytes = await backend.space.allocatedBytes(id);
    const taken = async () => (await backend.space.allocatedBytes(id)) - beforeBytes;
    using _space = await space.hold({ newBytes: 0n, takenBytes: larger(0n, storedBytes(record) - beforeBytes), taken });
    try {
      await step('modify/data', () => thickness.makeThick(record));
    } catch (error) {
      // A refused call gives back the space that it has taken so far, unless its blocks may be in use by now.
      if (record.provisioning === 'thin') await thickness.makeThin(record).catch(() => undefined);
      throw error;
    } finally {
      space.hasChanged(id);
    }
  }
}
