import { randomUUID } from 'node:crypto';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { ByteRange } from '../../kernel/file/sparse.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, DataLoss, FailedPrecondition, NotFound, Unavailable } from '../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import {
  type Answer,
  type CopyMark,
  commitDraft,
  type DraftMark,
  type Fence,
  finishDraft,
  isFenceFor,
  isRemovable,
  type LostNode,
  type NewFence,
  type Noted,
  type Request,
  settlesCopy,
  snapshotMoveId,
  type WholeDraft,
  whereElse,
} from '../../volume/move/rule.ts';
import { granularityBytes, larger } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import type { IncomingSnapshotDraft, Recorded, Transfer } from '../backend.ts';
import type {
  CopyState,
  IncomingSnapshot,
  LaterCopy,
  PoolMoves,
  PoolSnapshotMoves,
  SnapshotArrival,
} from '../moves.ts';
import type { SpaceRequest } from '../space/space-holds.ts';
import type { HeldSpace } from '../space/space-ledger.ts';
import { WrittenUnits } from '../space/written-units.ts';
import { explainFull } from './full.ts';
import { isOfMove, serializeMark } from './move-mark.ts';
import type { CatalogParts } from './parts.ts';
import { destroyUnreadable } from './unreadable.ts';

interface Left {
  /** The time of the snapshot. */
  readonly createdAt: string;
  /** undefined: it could not be read, and another node may have the snapshot. */
  readonly mark: CopyMark | undefined;
}

/** The marks of all copies, and their content (`moves.ts`). */
export interface Copies
  extends Pick<PoolMoves, 'changedRanges' | 'hasChanges' | 'read'>,
    Pick<PoolSnapshotMoves, 'disclaim' | 'noted' | 'requireNotPast' | 'takeBack'> {
  stateOf(id: SnapshotId): Promise<CopyState>;
  fence(id: SnapshotId, fence: NewFence): Promise<Fence>;
  open(id: SnapshotId, moveId: string): Promise<void>;
  give(id: SnapshotId, request: Request): Promise<Answer>;
  /** The reason why the pool cannot have something with that content; undefined: it can. */
  whyNot(object: Pick<SnapshotRecord, 'content' | 'encryption'>): string | undefined;
}

/** Snapshots that follow their volume into another pool, by the same rule. */
export class SnapshotMoves implements PoolSnapshotMoves {
  readonly #parts: CatalogParts;
  readonly #transfer: Transfer;
  readonly #copies: Copies;
  /** Copies that are the snapshot no more, as they were handed over, or are old ones. */
  readonly #left = new Map<SnapshotId, Left>();

  constructor(parts: CatalogParts, transfer: Transfer, copies: Copies) {
    this.#parts = parts;
    this.#transfer = transfer;
    this.#copies = copies;
    parts.unsettled.onSnapshot = (id) => this.#note(id);
  }

  /** Before the pool is used. */
  async learn(): Promise<void> {
    const { log, name, snapshotIndex } = this.#parts;
    const all = Array.from(snapshotIndex.all(), async ({ id }) => {
      try {
        await this.#note(id);
      } catch (error) {
        log.error({ pool: name, snapshot_id: id, err: error }, 'the mark of a snapshot cannot be read: it is not used');
      }
    });
    await Promise.all(all);
  }

  isLeft(id: SnapshotId): boolean {
    const left = this.#left.get(id);
    // A copy that is gone may have been forgotten late: another snapshot of that name is a later one.
    return left !== undefined && this.#parts.snapshotIndex.get(id)?.createdAt === left.createdAt;
  }

  async waits(id: SnapshotId): Promise<boolean> {
    const mark = this.isLeft(id) ? this.#left.get(id)?.mark : undefined;
    // Asked each time: another pool may have handed it over to another node since.
    return mark !== undefined && whereElse(mark, await this.noted(id)) === undefined;
  }

  async waiting(): Promise<ReadonlySet<SnapshotId>> {
    const waiting = new Set<SnapshotId>();
    // One whose note cannot be read may be elsewhere.
    for (const id of this.#left.keys()) if (await this.waits(id).catch(() => false)) waiting.add(id);
    return waiting;
  }

  handedOver(): { readonly record: SnapshotRecord; readonly to: string }[] {
    return Array.from(this.#left, ([id, { mark }]) => {
      const record = this.isLeft(id) ? this.find(id) : undefined;
      const { isGiven = false, to } = mark?.fence ?? {};
      return record === undefined || !isGiven || to === undefined ? [] : [{ record, to }];
    }).flat();
  }

  /**
   * Before the snapshot is removed.
   * @returns as `noteDeleted`
   * @throws Unavailable if the copy was handed over
   */
  async beginRemoval(id: SnapshotId): Promise<boolean> {
    const { generations, name } = this.#parts;
    const record = this.find(id);
    if (record === undefined) return false;
    const { mark } = await this.stateOf(id);
    if (isRemovable(mark, await generations.read(id))) return this.#noteDeleted(record, mark);
    throw new Unavailable(
      `snapshot ${id} was handed over by pool ${name}, and is removed once its move has ended: see holdfast move status.`,
    );
  }

  all(sourceId: VolumeId): SnapshotRecord[] {
    return [...this.#parts.snapshotIndex.all()].filter((record) => record.sourceId === sourceId);
  }

  find(id: SnapshotId): SnapshotRecord | undefined {
    return this.#parts.snapshotIndex.get(id);
  }

  async settled(id: SnapshotId): Promise<SnapshotRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.find(id);
  }

  async stateOf(id: SnapshotId): Promise<CopyState> {
    await this.#parts.unsettled.settle(id);
    return this.#copies.stateOf(id);
  }

  async verified(id: SnapshotId): Promise<number> {
    await this.#parts.backend.provisioner.verify({ kind: 'snapshot', record: this.#require(id) });
    return (await this.stateOf(id)).mark.generation;
  }

  async close(id: SnapshotId, to: string, node?: string): Promise<Fence> {
    const record = this.#require(id);
    const { mark, why } = await this.stateOf(id);
    // One that was handed over is read no more: it arrives whatever becomes of this copy.
    if (why !== 'given') await this.#parts.backend.provisioner.verify({ kind: 'snapshot', record });
    // Another pool may have read all of it under that one.
    if (why === 'closed' && mark.fence !== undefined && !isFenceFor(mark.fence, to, node)) await this.open(id);
    const fence = { moveId: snapshotMoveId(randomUUID(), to), fenceId: randomUUID() };
    return this.#copies.fence(id, { ...fence, ...(node !== undefined && { to: node }) });
  }

  async open(id: SnapshotId): Promise<void> {
    const { fence } = (await this.stateOf(id)).mark;
    if (fence !== undefined) await this.#copies.open(id, fence.moveId);
  }

  async give(id: SnapshotId, request: Request): Promise<Answer> {
    this.#require(id);
    const { fence, generation } = (await this.stateOf(id)).mark;
    const given = fence && { generation, fence: { ...fence, isGiven: true } };
    try {
      return await this.#copies.give(id, request);
    } finally {
      await this.#note(id, given).catch(() => undefined);
    }
  }

  async settle(id: SnapshotId, generation: number): Promise<boolean> {
    if (this.find(id) === undefined) return true;
    const { mark } = await this.stateOf(id);
    const moveId = mark.fence?.moveId ?? '';
    if (!settlesCopy(mark, { moveId, generation }, await this.#parts.generations.read(id))) return false;
    await this.#remove(id);
    return true;
  }

  async removeLeft(id: SnapshotId): Promise<void> {
    // The mark decides, not memory: it must never be the snapshot itself.
    const { why } = await this.stateOf(id);
    if (this.find(id) !== undefined && (why === 'given' || why === 'old')) await this.#remove(id);
  }

  async removeOlder(id: SnapshotId, createdAt: string, generation: number): Promise<void> {
    if ((await this.settled(id))?.createdAt !== createdAt) return;
    if ((await this.stateOf(id)).mark.generation < generation) await this.#remove(id);
  }

  async noteDeleted(id: SnapshotId): Promise<boolean> {
    const record = this.find(id);
    return record !== undefined && this.#noteDeleted(record, (await this.stateOf(id)).mark);
  }

  async #noteDeleted({ createdAt, id }: SnapshotRecord, { fence, generation }: CopyMark): Promise<boolean> {
    const { generations } = this.#parts;
    const given = fence?.isGiven === true ? generation + 1 : generation;
    const latest = Math.max(given, await generations.read(id));
    if (latest === 0) return false;
    await step('move/generation', () => generations.writeDeleted(id, latest + 1, createdAt));
    await this.#note(id);
    return true;
  }

  async deleted(): Promise<SnapshotId[]> {
    const ids: SnapshotId[] = [];
    for (const [id, { createdAt }] of this.#left) {
      // One whose note cannot be read stays.
      const wasDeleted = await this.wasDeleted(id, createdAt).catch(() => false);
      if (this.isLeft(id) && wasDeleted) ids.push(id);
    }
    return ids;
  }

  async wasDeleted(id: SnapshotId, createdAt: string): Promise<boolean> {
    const { deleted = '' } = await this.#parts.generations.noted(id);
    // The time of the deletion is all that is known of one that no pool had.
    return createdAt <= deleted;
  }

  async outdate(
    id: SnapshotId,
    { createdAt, generation, node }: Pick<Required<LaterCopy>, 'createdAt' | 'generation' | 'node'>,
  ): Promise<void> {
    const { generations } = this.#parts;
    if (createdAt === undefined || (await this.settled(id))?.createdAt !== createdAt) return;
    if ((await this.stateOf(id)).mark.generation >= generation) return;
    // A disk may come back as it is now.
    if ((await generations.read(id)) < generation) {
      await step('move/generation', () => generations.write(id, generation, node));
    }
    await this.#remove(id);
  }

  /** It went on elsewhere. */
  async #remove(id: SnapshotId): Promise<void> {
    const { backend, snapshotIndex, unsettled } = this.#parts;
    const ref = await unsettled.change([id], () => step('move/settle', () => backend.provisioner.removeSnapshot(id)));
    const record = snapshotIndex.get(id);
    snapshotIndex.delete(id);
    this.#left.delete(id);
    if (ref !== undefined) await destroyUnreadable(this.#parts, ref, { id, encryption: record?.encryption });
  }

  async takeBack(id: SnapshotId, word?: number | LostNode): Promise<void> {
    await this.#copies.takeBack(id, word);
    await this.#note(id);
  }

  noted(id: SnapshotId): Promise<Noted> {
    return this.#copies.noted(id);
  }

  async noteArrival(id: SnapshotId): Promise<void> {
    const { mark } = await this.stateOf(id);
    await this.#parts.generations.arrived(id, mark);
  }

  requireNotPast(id: SnapshotId, mark: CopyMark): Promise<void> {
    return this.#copies.requireNotPast(id, mark);
  }

  disclaim(id: SnapshotId, given: CopyMark, source: string): Promise<number> {
    return this.#copies.disclaim(id, given, source);
  }

  read(id: SnapshotId): Promise<Descriptor> {
    return this.#copies.read(id);
  }

  get unitBytes(): bigint {
    return this.#parts.backend.space.unitBytes ?? granularityBytes;
  }

  requireMovable({ groupId, id }: SnapshotRecord): void {
    if (groupId === undefined) return;
    throw new FailedPrecondition(
      `snapshot ${id} stays: it is a member of ${groupId}, and exists only together with it.`,
    );
  }

  requireRoomFor({ blockSizeBytes, content, encryption, id }: SnapshotRecord): void {
    const { backend, name, snapshotIndex } = this.#parts;
    // An earlier copy goes before it comes.
    if (snapshotIndex.get(id) !== undefined && !this.isLeft(id)) {
      throw new AlreadyExists(`snapshot ${id} cannot move to pool ${name}: a copy of it is there already.`);
    }
    if (backend.snapshotDraft === undefined || this.#transfer.incomingSnapshot === undefined) {
      throw new FailedPrecondition(
        `snapshot ${id} cannot move to pool ${name}: blocks cannot be shared there (reflink, thin pool), so each snapshot would take as much as the volume.`,
      );
    }
    const { sectorBytes = blockSizeBytes } = this.#transfer;
    const why = this.#copies.whyNot({ content, ...(encryption !== undefined && { encryption }) });
    const otherSectors = sectorBytes > blockSizeBytes ? `its disks have sectors of ${sectorBytes} bytes` : undefined;
    if (why === undefined && otherSectors === undefined) return;
    throw new FailedPrecondition(`snapshot ${id} cannot move to pool ${name}: ${why ?? otherSectors}.`);
  }

  async receive(record: SnapshotRecord, arrival: SnapshotArrival): Promise<IncomingSnapshot> {
    const { name, space, trash } = this.#parts;
    const { alone, isGiven, moveId } = arrival;
    const { id } = record;
    const draft = this.#draft(id);
    const note = await draft.readNote();
    const noted = note !== undefined && isOfMove(note, moveId) ? parseNote(note) : undefined;
    const isNew = noted === undefined;
    if (isNew) for (const ref of await draft.discard()) trash.destroy(ref);
    const base = this.#baseOf(record);
    const written = new WrittenUnits(this.unitBytes, noted?.writtenBytes);
    // One that was handed over has all of its blocks here.
    const newBytes = isGiven ? 0n : larger(0n, arrival.newBytes - written.bytes);
    const foundBytes = written.bytes;
    const held = await space.hold({
      newBytes,
      // Its blocks are taken now, whatever may be promised.
      provisioning: 'thick',
      taken: async () => written.bytes - foundBytes,
      ...this.#sharing(record, isNew ? base?.kind : noted.began, arrival),
    });
    const wholeBytes = storedBytes(record);
    try {
      let isClone = false;
      if (isNew) {
        const make = async () => {
          if (base !== undefined) this.#requireHere(base);
          return await step('move/draft', () => draft.make(wholeBytes, base));
        };
        isClone = base === undefined ? await make() : await alone(base.record.id, make);
      }
      const data = await draft.open();
      const arrived = () => this.#left.delete(id);
      const began = isNew ? base?.kind : noted.began;
      const own = { moveId, record, draft, held, data, written, arrived, began };
      return new Arriving(this.#parts, { ...own, isNew, noted: noted?.text, isClone });
    } catch (error) {
      held[Symbol.dispose]();
      throw explainFull(error, name, wholeBytes);
    }
  }

  /** The volume, if it shares blocks with what arrives: then it may have to write them again. */
  #sharing(
    { sourceId }: SnapshotRecord,
    began: Recorded['kind'] | undefined,
    { isGiven }: SnapshotArrival,
  ): Pick<SpaceRequest, 'sharingIds' | 'sourceIds'> {
    if (began === 'snapshot' || this.#parts.index.get(sourceId) === undefined) return {};
    // Granted before it was handed over.
    return isGiven ? { sharingIds: [sourceId] } : { sourceIds: [sourceId] };
  }

  async arriving(): Promise<readonly SnapshotId[]> {
    return (await this.#transfer.incomingSnapshots?.()) ?? [];
  }

  async notedOf(id: SnapshotId): Promise<string | undefined> {
    const note = await this.#draft(id).readNote();
    // One that was cut short before its first note.
    if (note === undefined || note === '') return undefined;
    const noted = parseNote(note);
    if (noted !== undefined) return noted.text;
    throw new DataLoss(`The note of snapshot ${id}, which was moving to pool ${this.#parts.name}, cannot be read.`);
  }

  async discard(id: SnapshotId): Promise<void> {
    if (this.#transfer.incomingSnapshot === undefined) return;
    await step('move/discard', async () => {
      for (const ref of await this.#draft(id).discard()) this.#parts.trash.destroy(ref);
    });
  }

  /** The volume or the snapshot of it that is here and has the content of the nearest time. */
  #baseOf({ createdAt, sourceId }: SnapshotRecord): Recorded | undefined {
    const { index } = this.#parts;
    const here = this.all(sourceId).filter(({ id }) => !this.isLeft(id));
    const byTime = here.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
    const later = byTime.find((other) => other.createdAt >= createdAt);
    if (later !== undefined) return { kind: 'snapshot', record: later };
    const volume = index.get(sourceId);
    if (volume !== undefined) return { kind: 'volume', record: volume };
    const earlier = byTime.at(-1);
    return earlier && { kind: 'snapshot', record: earlier };
  }

  /** Another call may have removed it, or taken another one under its name. @throws Unavailable */
  #requireHere(base: Recorded): void {
    const { index, name, snapshotIndex } = this.#parts;
    const { id } = base.record;
    const now = base.kind === 'volume' ? index.get(base.record.id) : snapshotIndex.get(base.record.id);
    if (now?.createdAt === base.record.createdAt) return;
    throw new Unavailable(
      `${base.kind} ${id} of pool ${name}, which was about to be cloned, is gone; it is tried again.`,
    );
  }

  #draft(id: SnapshotId): IncomingSnapshotDraft {
    const { incomingSnapshot } = this.#transfer;
    if (incomingSnapshot !== undefined) return incomingSnapshot(id);
    throw new FailedPrecondition(`pool ${this.#parts.name} receives no snapshots.`);
  }

  /** @param unread the mark that it may have, until that can be read */
  async #note(id: SnapshotId, unread?: CopyMark): Promise<void> {
    const record = this.find(id);
    if (record === undefined) return;
    const { createdAt } = record;
    this.#left.set(id, { createdAt, mark: unread });
    const { mark, why } = await this.#copies.stateOf(id);
    if (why !== 'given' && why !== 'old') this.#left.delete(id);
    else this.#left.set(id, { createdAt, mark });
  }

  #require(id: SnapshotId): SnapshotRecord {
    const record = this.find(id);
    if (record === undefined) throw gone(id, this.#parts.name);
    return record;
  }
}

/** The mover's note, and the space that the copy had taken when it was written. */
interface ArrivalNote {
  readonly writtenBytes: bigint;
  /** It began as a clone of that; undefined: of nothing, or that is not known. */
  readonly began: Recorded['kind'] | undefined;
  readonly text: string;
}

/** @returns undefined if it cannot be read: the copy begins again */
function parseNote(note: string): ArrivalNote | undefined {
  const [, bytes, began, text] = /^[^\n]*\n([0-9]{1,19})(?: (snapshot|volume))?\n(.*)$/s.exec(note) ?? [];
  if (bytes === undefined || text === undefined) return undefined;
  return { writtenBytes: BigInt(bytes), began: began === 'snapshot' || began === 'volume' ? began : undefined, text };
}

function serializeNote({ began, text, writtenBytes }: ArrivalNote, moveId: string): string {
  return `${moveId}\n${writtenBytes}${began === undefined ? '' : ` ${began}`}\n${text}`;
}

interface ArrivingParts
  extends Pick<ArrivalNote, 'began'>,
    Pick<IncomingSnapshot, 'data' | 'isClone' | 'isNew' | 'noted'> {
  readonly moveId: string;
  readonly record: SnapshotRecord;
  readonly draft: IncomingSnapshotDraft;
  readonly held: HeldSpace;
  readonly written: WrittenUnits;
  readonly arrived: () => void;
}

class Arriving implements IncomingSnapshot {
  readonly isNew: boolean;
  readonly isClone: boolean;
  readonly noted: string | undefined;
  readonly data: Descriptor;
  readonly #parts: CatalogParts;
  readonly #own: ArrivingParts;
  #hasEnded = false;

  constructor(parts: CatalogParts, own: ArrivingParts) {
    this.#parts = parts;
    this.#own = own;
    this.isNew = own.isNew;
    this.isClone = own.isClone;
    this.noted = own.noted;
    this.data = own.data;
  }

  async note(text: string): Promise<void> {
    const { began, draft, moveId, written } = this.#own;
    const note = serializeNote({ writtenBytes: written.bytes, began, text }, moveId);
    await step('move/progress', () => draft.writeNote(note));
  }

  wrote(range: ByteRange): void {
    this.#own.written.add(range);
  }

  zero(range: ByteRange): Promise<void> {
    return this.#own.draft.zero(this.data, range);
  }

  confirm(): Promise<void> {
    return this.#own.held.confirm();
  }

  async commit(mark: DraftMark, answer: Answer, from: string | undefined): Promise<void> {
    const { generations, name } = this.#parts;
    const { id } = this.#own.record;
    // One that was here before has the same bytes.
    const committed = commitDraft(mark, await generations.noted(id), answer);
    if (committed === undefined) {
      throw new FailedPrecondition(
        `snapshot ${id} does not arrive in pool ${name}: the answer of its source is not for this copy. Start the move again.`,
      );
    }
    await this.#become(committed, from);
  }

  async finish(draft: WholeDraft, lost: LostNode | undefined): Promise<void> {
    const { generations, name } = this.#parts;
    const { id } = this.#own.record;
    const finished = finishDraft(draft, await generations.noted(id), lost);
    if (finished === undefined) {
      throw new FailedPrecondition(
        `snapshot ${id} has been on this node, and has gone on: the copy in pool ${name} does not become the snapshot.`,
      );
    }
    await this.#become(finished, lost?.lostNode);
  }

  /** From the commit on it is the snapshot. */
  async #become(mark: CopyMark, from: string | undefined): Promise<void> {
    const { generations, snapshotIndex, unsettled } = this.#parts;
    const { arrived, draft, record } = this.#own;
    const { id } = record;
    const commit = async () => {
      await step('move/complete', () => draft.complete(record, serializeMark(mark)));
      await unsettled.change([id], () => step('move/commit', () => draft.commit()));
      arrived();
      snapshotIndex.put(record);
      await draft.forgetNote().catch(() => undefined);
    };
    await generations.arrive(id, { mark, from, commit });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#own.held[Symbol.dispose]();
    await this.data[Symbol.asyncDispose]();
  }
}

function gone(id: SnapshotId, name: string): NotFound {
  return new NotFound(`There is no snapshot ${id} in pool ${name} any more.`);
}
