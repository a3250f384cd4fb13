import { constants } from 'node:fs';
import { zeroOut } from '../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import { DataLoss, InternalError } from '../../../volume/errors.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { smaller } from '../../../volume/size.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import { step } from '../../../volume/step.ts';
import type { IncomingBytesDraft, IncomingRoom, IncomingSnapshotDraft, Recorded, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { LvSnapshotDraft } from './drafts.ts';
import type { OwnLv } from './group/group-state.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { newLvName } from './names.ts';
import { snapshotTags, volumeTags } from './record-store.ts';
import { documentTags, moveDocument, readDocument, stateTag, tagsOfDocument } from './tags.ts';

/** The document in the tags of a draft that comes from another pool: the mover's note. Other drafts go at the next start. */
const incomingDocument = 'incoming';

/** The document of such a draft that grows: the offset from which it may still hold what lay there before. */
const grownDocument = 'grown';
/** The number of bytes that are made zeros at a time. */
const zeroedAtOnce = 1n << 30n;

/** True if the next start must leave the draft: its move resumes it. */
export function isIncoming({ tags }: Pick<OwnLv, 'tags'>): boolean {
  return tagsOfDocument(incomingDocument, tags).length > 0;
}

/** Logical volumes that move into other pools, or come from there. */
export class LvmTransfer implements Transfer {
  readonly changedRanges: Transfer['changedRanges'];
  readonly #parts: LvmParts;

  /** @param changedRanges undefined: the pool cannot tell them */
  constructor(parts: LvmParts, changedRanges: Transfer['changedRanges']) {
    this.#parts = parts;
    this.changedRanges = changedRanges;
  }

  get sectorBytes(): number {
    return this.#parts.blockSizeBytes;
  }

  async readMark(id: SnapshotId | VolumeId): Promise<string | undefined> {
    return markIn(this.#parts.group.find(id));
  }

  async writeMark(id: SnapshotId | VolumeId, text: string): Promise<void> {
    const { group } = this.#parts;
    const lv = group.find(id);
    if (lv === undefined) throw new DataLoss(`The logical volume of ${id} is missing.`);
    await group.edit(lv.name, (tags) => withDocument(tags, moveDocument, text));
  }

  async markInTrash(ref: TrashRef): Promise<string | undefined> {
    return markIn(this.#parts.group.get(ref));
  }

  async read(object: Recorded): Promise<Descriptor> {
    const { calls, group, idle } = this.#parts;
    const lv = group.find(object.record.id);
    if (lv === undefined) throw this.#parts.missing(object);
    if (group.deviceOf(lv.name) === undefined) idle.add(lv.name);
    return (await openLv(calls, group, lv.name)).descriptor;
  }

  incoming(id: VolumeId): IncomingBytesDraft {
    return new IncomingLv(this.#parts, id);
  }

  async incomingVolumes(): Promise<readonly VolumeId[]> {
    const drafts = this.#parts.group.inState('draft').filter(isIncoming);
    return drafts.flatMap(({ id }) => parseVolumeId(id ?? '') ?? []);
  }

  /** undefined without a thin pool: a snapshot would take as much as its volume. */
  get incomingSnapshot(): Transfer['incomingSnapshot'] {
    if (this.#parts.thin === undefined) return undefined;
    return (id) => new IncomingLvSnapshot(this.#parts, id);
  }

  async incomingSnapshots(): Promise<readonly SnapshotId[]> {
    const drafts = this.#parts.group.inState('draft').filter(isIncoming);
    return drafts.flatMap(({ id }) => parseSnapshotId(id ?? '') ?? []);
  }
}

/** Null, a document that is not whole, is no mark that can be read. */
export function markIn(lv: OwnLv | undefined): string | undefined {
  const text = lv && readDocument(moveDocument, lv.tags);
  return text === null ? '' : text;
}

/** @param text undefined: without that document */
function withDocument(tags: readonly string[], name: string, text: string | undefined): string[] {
  const before = tagsOfDocument(name, tags);
  return [...tags.filter((tag) => !before.includes(tag)), ...(text === undefined ? [] : documentTags(name, text))];
}

/** undefined: all of it holds what the move has written. @throws DataLoss */
function grownFrom({ name, tags }: OwnLv): bigint | undefined {
  const text = readDocument(grownDocument, tags);
  if (text === undefined) return undefined;
  if (text === null || !/^[0-9]+$/.test(text)) {
    throw new DataLoss(`The tags of the logical volume ${name} do not say how much of it has come. Cancel its move.`);
  }
  return BigInt(text);
}

/** A logical volume on its way from another pool: a draft with a note in its tags. */
abstract class IncomingDraftLv<Kind extends SnapshotRecord | VolumeRecord> {
  protected readonly parts: LvmParts;
  readonly #id: SnapshotId | VolumeId;
  #finalTags: readonly string[] | undefined;

  constructor(parts: LvmParts, id: SnapshotId | VolumeId) {
    this.parts = parts;
    this.#id = id;
  }

  async open(): Promise<Descriptor> {
    const { calls, group, idle } = this.parts;
    const { name } = this.require();
    if (group.deviceOf(name) === undefined) idle.add(name);
    return (await openLv(calls, group, name, constants.O_RDWR)).descriptor;
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    await zeroOut(this.parts.calls, data, range);
  }

  async readNote(): Promise<string | undefined> {
    const lv = this.find();
    return (lv && readDocument(incomingDocument, lv.tags)) ?? undefined;
  }

  async writeNote(text: string): Promise<void> {
    await this.note(this.require().name, text);
  }

  async takenBytes(): Promise<bigint> {
    const { group, thin } = this.parts;
    const lv = this.find();
    if (lv === undefined) return 0n;
    return thin === undefined ? group.takenBytes(lv) : ((await thin.takenBytes(lv.name)) ?? 0n);
  }

  async complete(record: Kind, mark: string): Promise<void> {
    await using data = await this.open();
    await syncFile(this.parts.calls, data);
    this.#finalTags = [...this.tagsOf(record), ...documentTags(moveDocument, mark)];
  }

  async commit(): Promise<void> {
    if (this.#finalTags === undefined) throw new InternalError(`${this.#id} is committed before it is whole.`);
    await this.parts.group.retag(this.require().name, this.#finalTags);
  }

  /** The note has gone with the commit. */
  async forgetNote(): Promise<void> {}

  /** From then on the next start would remove it, too. */
  async discard(): Promise<readonly TrashRef[]> {
    const lv = this.find();
    if (lv === undefined) return [];
    await this.parts.group.retag(lv.name, [stateTag('draft')]);
    return [lv.name];
  }

  protected abstract tagsOf(record: Kind): string[];

  /** Without one it would go at the next start. */
  protected async note(lvName: string, text: string): Promise<void> {
    await this.parts.group.edit(lvName, (tags) => withDocument(tags, incomingDocument, text));
  }

  protected find(): OwnLv | undefined {
    return this.parts.group.inState('draft').find((lv) => lv.id === this.#id && isIncoming(lv));
  }

  protected require(): OwnLv {
    const lv = this.find();
    if (lv === undefined) throw new DataLoss(`The logical volume that ${this.#id} moves to is missing.`);
    return lv;
  }
}

/** A volume on its way. */
class IncomingLv extends IncomingDraftLv<VolumeRecord> implements IncomingBytesDraft {
  readonly kind = 'bytes';
  /** A new linear one has what lay there before. */
  readonly isBlank: boolean;
  readonly #newName: string;

  constructor(parts: LvmParts, id: VolumeId) {
    super(parts, id);
    this.#newName = newLvName(id);
    this.isBlank = parts.thin !== undefined;
  }

  async begin({ sizeBytes }: IncomingRoom): Promise<void> {
    const { group, idle, thin } = this.parts;
    const found = this.find();
    if (found !== undefined) return this.resize(sizeBytes);
    const tags = [stateTag('draft'), ...documentTags(incomingDocument, '')];
    idle.add(this.#newName);
    if (thin === undefined) await group.create(this.#newName, { sizeBytes, layout: 'linear', tags });
    else await thin.create(this.#newName, sizeBytes, tags);
  }

  async resize(sizeBytes: bigint): Promise<void> {
    const { group } = this.parts;
    const before = this.require();
    if (this.isBlank) return group.extend(before.name, sizeBytes);
    const grows = group.roundUp(sizeBytes) > before.sizeBytes;
    // A driver that is killed before the end of the zeros finds it larger: without this note it would take them for made.
    if (grows && grownFrom(before) === undefined) await this.#noteGrown(before.name, before.sizeBytes);
    await group.extend(before.name, sizeBytes);
    const fromBytes = grownFrom(this.require());
    if (fromBytes === undefined) return;
    await step('move/zeros', () => this.#zeroFrom(fromBytes));
    await this.#noteGrown(before.name, undefined);
  }

  async #zeroFrom(fromBytes: bigint): Promise<void> {
    const { sizeBytes } = this.require();
    await using data = await this.open();
    for (let offsetBytes = fromBytes; offsetBytes < sizeBytes; offsetBytes += zeroedAtOnce) {
      await this.zero(data, { offsetBytes, lengthBytes: smaller(zeroedAtOnce, sizeBytes - offsetBytes) });
    }
    await syncFile(this.parts.calls, data);
  }

  async #noteGrown(lvName: string, fromBytes: bigint | undefined): Promise<void> {
    await this.parts.group.edit(lvName, (tags) => withDocument(tags, grownDocument, fromBytes?.toString()));
  }

  protected tagsOf(record: VolumeRecord): string[] {
    return volumeTags(record, undefined);
  }
}

/** A snapshot on its way, in a thin pool. */
class IncomingLvSnapshot extends IncomingDraftLv<SnapshotRecord> implements IncomingSnapshotDraft {
  readonly #draft: LvSnapshotDraft;

  constructor(parts: LvmParts, id: SnapshotId) {
    super(parts, id);
    this.#draft = new LvSnapshotDraft(parts, id);
  }

  async make(sizeBytes: bigint, base: Recorded | undefined): Promise<boolean> {
    const { group } = this.parts;
    const { lvName } = this.#draft;
    // A logical volume never gets smaller, and volumes made of a larger one would grow.
    const isOfSize = base !== undefined && group.find(base.record.id)?.sizeBytes === group.roundUp(sizeBytes);
    if (isOfSize) {
      const clone = this.#draft.clone(base);
      await clone.goAhead?.();
      await clone.complete({ isAtRest: false });
    } else {
      await this.#draft.createBlank(sizeBytes);
    }
    await this.note(lvName, '');
    return isOfSize;
  }

  protected tagsOf(record: SnapshotRecord): string[] {
    return snapshotTags(record, undefined);
  }
}
