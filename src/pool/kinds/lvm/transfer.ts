import { constants } from 'node:fs';
import { zeroOut } from '../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import { DataLoss, InternalError } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { IncomingBytesDraft, IncomingRoom, Recorded, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { OwnLv } from './group/group-state.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { newLvName } from './names.ts';
import { volumeTags } from './record-store.ts';
import { documentTags, moveDocument, readDocument, stateTag, tagsOfDocument } from './tags.ts';

/** The document in the tags of a draft that comes from another pool: the mover's note. Other drafts go at the next start. */
const incomingDocument = 'incoming';

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

  async readMark(id: VolumeId): Promise<string | undefined> {
    return markIn(this.#parts.group.find(id));
  }

  async writeMark(id: VolumeId, text: string): Promise<void> {
    const { group } = this.#parts;
    const lv = group.find(id);
    if (lv === undefined) throw new DataLoss(`volume ${id}: its logical volume is missing.`);
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
}

/** Null, a document that is not whole, is no mark that can be read. */
function markIn(lv: OwnLv | undefined): string | undefined {
  const text = lv && readDocument(moveDocument, lv.tags);
  return text === null ? '' : text;
}

function withDocument(tags: readonly string[], name: string, text: string): string[] {
  const before = tagsOfDocument(name, tags);
  return [...tags.filter((tag) => !before.includes(tag)), ...documentTags(name, text)];
}

/** A logical volume on its way from another pool: a draft with a note in its tags. */
class IncomingLv implements IncomingBytesDraft {
  readonly kind = 'bytes';
  /** A new linear one has what lay there before. */
  readonly isBlank: boolean;
  readonly #parts: LvmParts;
  readonly #id: VolumeId;
  #finalTags: readonly string[] | undefined;

  constructor(parts: LvmParts, id: VolumeId) {
    this.#parts = parts;
    this.#id = id;
    this.isBlank = parts.thin !== undefined;
  }

  async begin({ sizeBytes }: IncomingRoom): Promise<void> {
    const { group, idle, thin } = this.#parts;
    const found = this.#find();
    if (found !== undefined) return this.resize(sizeBytes);
    const lvName = newLvName(this.#id);
    const tags = [stateTag('draft'), ...documentTags(incomingDocument, '')];
    idle.add(lvName);
    if (thin === undefined) await group.create(lvName, { sizeBytes, layout: 'linear', tags });
    else await thin.create(lvName, sizeBytes, tags);
  }

  async resize(sizeBytes: bigint): Promise<void> {
    const { group } = this.#parts;
    const before = this.#require();
    await group.extend(before.name, sizeBytes);
    const after = this.#require();
    if (this.isBlank || after.sizeBytes <= before.sizeBytes) return;
    await using data = await this.open();
    await this.zero(data, { offsetBytes: before.sizeBytes, lengthBytes: after.sizeBytes - before.sizeBytes });
  }

  async open(): Promise<Descriptor> {
    const { calls, group, idle } = this.#parts;
    const { name } = this.#require();
    if (group.deviceOf(name) === undefined) idle.add(name);
    return (await openLv(calls, group, name, constants.O_RDWR)).descriptor;
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    await zeroOut(this.#parts.calls, data, range);
  }

  async readNote(): Promise<string | undefined> {
    const lv = this.#find();
    return (lv && readDocument(incomingDocument, lv.tags)) ?? undefined;
  }

  async writeNote(text: string): Promise<void> {
    await this.#parts.group.edit(this.#require().name, (tags) => withDocument(tags, incomingDocument, text));
  }

  async takenBytes(): Promise<bigint> {
    const { group, thin } = this.#parts;
    const lv = this.#find();
    if (lv === undefined) return 0n;
    return thin === undefined ? group.takenBytes(lv) : ((await thin.takenBytes(lv.name)) ?? 0n);
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    await using data = await this.open();
    await syncFile(this.#parts.calls, data);
    this.#finalTags = [...volumeTags(record, undefined), ...documentTags(moveDocument, mark)];
  }

  async commit(): Promise<void> {
    if (this.#finalTags === undefined) throw new InternalError(`volume ${this.#id} is committed before it is whole.`);
    await this.#parts.group.retag(this.#require().name, this.#finalTags);
  }

  /** The note has gone with the commit. */
  async forgetNote(): Promise<void> {}

  /** From then on the next start would remove it, too. */
  async discard(): Promise<readonly TrashRef[]> {
    const lv = this.#find();
    if (lv === undefined) return [];
    await this.#parts.group.retag(lv.name, [stateTag('draft')]);
    return [lv.name];
  }

  #find(): OwnLv | undefined {
    return this.#parts.group.inState('draft').find((lv) => lv.id === this.#id && isIncoming(lv));
  }

  #require(): OwnLv {
    const lv = this.#find();
    if (lv === undefined) throw new DataLoss(`volume ${this.#id}: the logical volume that it moves to is missing.`);
    return lv;
  }
}
