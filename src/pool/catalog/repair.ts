import { repairCommands } from '../../filesystems/repair.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { volumeIdFor } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { step } from '../../volume/step.ts';
import type { RepairDraft } from '../backend.ts';
import { deletedNow, originalName, type TrashEntry } from '../indexes/trash-entry.ts';
import { refuseInUse } from './in-use.ts';
import type { CatalogParts } from './parts.ts';

/** The minimum time for which the original is kept: an operator must notice, and compare. */
const keptSeconds = 14 * 86_400;

/** Repairs the filesystem of a volume that is not in use, on a clone, so that a repair that goes wrong has harmed nothing. */
export class Repair {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  /**
   * Clone, check, repair, mount the clone to see that it can be; only then the original goes into the trash, as a separate
   * volume that can be restored, and the clone takes its place.
   * @throws DataLoss if it cannot be repaired, or no clone is possible: then nothing has changed
   */
  async repair(record: VolumeRecord, fsType: FilesystemType, secrets?: Secrets): Promise<void> {
    const { backend, log, name, space, trash } = this.#parts;
    const { id } = record;
    await refuseInUse(this.#parts, record);
    const { repairDraft } = backend.extras;
    if (repairDraft === undefined) {
      throw new DataLoss(
        `volume ${id}: its ${fsType} is damaged, and pool ${name} (${backend.kind}) repairs none. It is left as it is: check its device (e2fsck, xfs_repair, btrfs check) while no pod uses it.`,
      );
    }
    if (backend.traits.snapshots !== 'reflink') {
      const advice = adviceWithoutClone(record, fsType, backend.provisioner.dataFile?.(id));
      throw new DataLoss(
        `volume ${id}: its ${fsType} is damaged, and pool ${name} cannot repair it on a clone, as its own filesystem cannot share blocks. It is left as it is. ${advice}`,
      );
    }
    log.warn({ pool: name, volume_id: id, filesystem: fsType }, 'a filesystem is damaged: it is checked on a clone');
    using _space = await space.hold({ newBytes: 0n, sourceIds: [id] });
    const draft = repairDraft(record, fsType, secrets);
    try {
      await step('repair/clone', () => draft.clone());
      await step('repair/check', () => draft.fix());
      const original = await this.#keepOriginal(record, draft);
      await this.#replace({ ...record, repair: { at: original.deletedAt, originalId: original.record.id } }, draft);
      log.warn(
        { pool: name, volume_id: id, original_id: original.record.id },
        'a filesystem was repaired; the original is in the trash',
      );
    } finally {
      for (const ref of await draft.discard()) trash.destroy(ref);
    }
  }

  /**
   * The original is kept as a clone too, so that it is independent from the start; whether the repaired one ever takes
   * its place or not.
   */
  async #keepOriginal(damaged: VolumeRecord, draft: RepairDraft): Promise<TrashEntry> {
    const { name, trash, undeleteSeconds, unsettled } = this.#parts;
    const deletion = deletedNow(Math.max(keptSeconds, damaged.undeleteSeconds ?? undeleteSeconds), trash.poolAgeMs);
    const { deletedAt } = deletion;
    const {
      ephemeral: _ephemeral,
      otherPublications: _others,
      publication: _publication,
      repair: _repair,
      ...rest
    } = damaged;
    const record: VolumeRecord = {
      ...rest,
      id: volumeIdFor('before repair', name, `${damaged.id} ${deletedAt}`),
      name: originalName(damaged.name, deletedAt),
      source: { type: 'volume', id: damaged.id },
    };
    const ref = await unsettled.change([record.id], () =>
      step('repair/keep', () => draft.keepOriginal(record, deletion)),
    );
    const entry = { ...deletion, ref, record };
    trash.keep(entry);
    return entry;
  }

  /** The record first: cut short in between, the next stage repairs again, and never goes without a word. */
  async #replace(repaired: VolumeRecord, draft: RepairDraft): Promise<void> {
    const { backend, index, space, unsettled } = this.#parts;
    const { id } = repaired;
    await unsettled.change([id], () => step('repair/record', () => backend.records.writeVolume(repaired)));
    index.put(repaired);
    try {
      await step('repair/commit', () => draft.replace());
    } finally {
      // Also if it is the sync that failed.
      space.hasChanged(id);
    }
  }
}

/** @param file with its data; undefined: there is none */
function adviceWithoutClone({ encryption }: VolumeRecord, fsType: FilesystemType, file = 'its data'): string {
  const command = repairCommands[fsType];
  return encryption === undefined
    ? `Copy ${file} if there is room for that, then: ${command} ${file}`
    : `Copy its data if there is room for that, open the copy with cryptsetup, then: ${command}`;
}
