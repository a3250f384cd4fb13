import { readFile, rmdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { emptyDirectory } from '../../../kernel/file/tree-removal.ts';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import { TurnsByKey } from '../../../volume/flow/turns.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../../volume/record.ts';
import type { Clone, NewData, Provisioner, Recorded, Removed, VolumeDraft } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Condition } from '../../pool.ts';
import { VolumeFileDraft } from '../../records/file-draft.ts';
import { FileRemoval } from '../../records/file-removal.ts';
import { isThere } from '../../records/gone.ts';
import type { ExecParts } from './backend.ts';

/**
 * Has volumes made and deleted by a program. It knows a volume by its id alone, and a name that is used again has the id that it
 * had: so the rest of one try is deleted only while no other one has the id.
 */
export class ExecProvisioner extends FileRemoval<ExecParts> implements Provisioner {
  readonly #ids = new Ids();

  draft(id: VolumeId): VolumeDraft {
    return new ExecDraft(this.parts, id, this.#ids);
  }

  /** Before its record goes: if that fails, it is deleted again. Nothing is kept for a time. */
  override async removeVolume(id: VolumeId): Promise<Removed> {
    await this.#ids.inTurn(id, () => this.parts.storage.delete(id));
    return await super.removeVolume(id, undefined);
  }

  async verify(): Promise<void> {}

  async conditionOf(): Promise<Condition | undefined> {
    return undefined;
  }

  /** The record has it. */
  async sizeOf(): Promise<bigint | undefined> {
    return undefined;
  }

  async grow(record: VolumeRecord): Promise<void> {
    await this.#ids.inTurn(record.id, () => this.parts.storage.grow(record));
  }

  async destroy(ref: TrashRef): Promise<void> {
    const { layout, queue } = this.parts;
    // Elsewhere lie volumes that were deleted before.
    const record = dirname(ref) === layout.drafts ? await this.#recordIn(ref) : undefined;
    if (record !== undefined) {
      if (this.#ids.drafts.has(ref) || isRecent(record)) await this.#deleteUnlessNew(record.id);
      else this.#leave(record);
    }
    this.#ids.drafts.delete(ref);
    try {
      await emptyDirectory(queue, ref, () => false);
      await queue.run(() => rmdir(ref));
    } catch (error) {
      if (isErrno(error, 'ENOTDIR')) await queue.run(() => unlink(ref)).catch(ignoreMissing);
      else ignoreMissing(error);
    }
  }

  #leave({ createdAt, id, name }: VolumeRecord): void {
    this.parts.log.warn(
      { pool: this.parts.name, volume_id: id, name, created_at: createdAt },
      'a volume was being made when its home ended, too long ago to be deleted now: it may be in use, if the records were restored. If no PersistentVolume names it, delete it by hand',
    );
  }

  async #deleteUnlessNew(id: VolumeId): Promise<void> {
    const { layout, queue, storage } = this.parts;
    await this.#ids.inTurn(id, async () => {
      if (this.#ids.isOnItsWay(id) || (await isThere(queue, layout.volume(id)))) return;
      await storage.delete(id);
    });
  }

  async #recordIn(ref: TrashRef): Promise<VolumeRecord | undefined> {
    const path = join(ref, 'volume.json');
    const text = await this.parts.queue.run(() => readFile(path, 'utf8')).catch(ignoreMissing);
    try {
      return text === undefined ? undefined : parseRecord(text, path);
    } catch {
      // Its write was cut short, so the program was not called yet.
      return undefined;
    }
  }
}

/** A home ends, and the next one takes over, in less. */
const recentMs = 30 * 60_000;

/**
 * Answers if what an ended try has left may be deleted. The directory of records may be restored from a backup, or rolled back:
 * then a volume that was just being made has been in use since, and no record says so.
 */
function isRecent({ createdAt }: VolumeRecord): boolean {
  const ageMs = Date.now() - Date.parse(createdAt);
  // A clock that is behind tells nothing.
  return ageMs >= 0 && ageMs < recentMs;
}

/** The ids that calls of the program run for, and the tries. */
class Ids {
  /** Directories of tries of this process. */
  readonly drafts = new Set<string>();
  readonly #turns = new TurnsByKey<VolumeId>();
  readonly #onTheirWay = new Map<VolumeId, number>();

  inTurn<T>(id: VolumeId, work: () => Promise<T>): Promise<T> {
    return this.#turns.run(id, work);
  }

  begin(id: VolumeId): void {
    this.#onTheirWay.set(id, (this.#onTheirWay.get(id) ?? 0) + 1);
  }

  end(id: VolumeId): void {
    const left = (this.#onTheirWay.get(id) ?? 0) - 1;
    if (left > 0) this.#onTheirWay.set(id, left);
    else this.#onTheirWay.delete(id);
  }

  isOnItsWay(id: VolumeId): boolean {
    return this.#onTheirWay.has(id);
  }
}

/** A volume on its way: an intent record, the call, and the rename by which it exists. */
class ExecDraft extends VolumeFileDraft<ExecParts> implements VolumeDraft {
  readonly #ids: Ids;
  #isBegun = false;

  constructor(parts: ExecParts, id: VolumeId, ids: Ids) {
    super(parts, id);
    this.#ids = ids;
  }

  override async begin(): Promise<void> {
    this.#ids.begin(this.id);
    this.#ids.drafts.add(this.directory);
    this.#isBegun = true;
    await super.begin();
  }

  async check({ undeleteSeconds = 0 }: VolumeRecord, { isClone }: { readonly isClone: boolean }): Promise<void> {
    if (isClone) throw new FailedPrecondition(`pool ${this.parts.name}: its program copies no volumes.`);
    if (undeleteSeconds > 0) {
      throw new InvalidArgument(`pool ${this.parts.name} keeps no deleted volumes: leave undelete out of the class.`);
    }
  }

  override async takenBytes(): Promise<bigint> {
    return 0n;
  }

  clone(source: Recorded): Clone {
    throw new FailedPrecondition(
      `pool ${this.parts.name}: its program does not copy ${source.kind} ${source.record.id}.`,
    );
  }

  async make(record: VolumeRecord, { secrets }: NewData): Promise<void> {
    const { layout, storage, syncs } = this.parts;
    await this.writeRecord(record);
    // Durable before the program makes anything.
    await syncs.sync(this.parts.queue, this.directory);
    await syncs.sync(this.parts.queue, layout.drafts);
    await this.#ids.inTurn(record.id, () => storage.create(record, secrets));
  }

  async complete(): Promise<void> {
    throw new FailedPrecondition(`pool ${this.parts.name}: its program copies no volumes.`);
  }

  override async commit(): Promise<void> {
    await super.commit();
    this.#ids.drafts.delete(this.directory);
    this.#end();
  }

  override async discard(): Promise<TrashRef | undefined> {
    const ref = await super.discard();
    this.#end();
    return ref;
  }

  #end(): void {
    if (this.#isBegun) this.#ids.end(this.id);
    this.#isBegun = false;
  }
}
