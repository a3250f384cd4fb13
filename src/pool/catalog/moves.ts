import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { ByteRange } from '../../kernel/file/sparse.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, FailedPrecondition, NotFound } from '../../volume/errors.ts';
import { isVolumeId, kindOf, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import {
  type Answer,
  type Arrived,
  type CopyMark,
  closeCopy,
  commitDraft,
  disclaim,
  disclaimLost,
  type Fence,
  finishDraft,
  giveCopy,
  hasCome,
  hasGoneOn,
  isPast,
  isVolume,
  type LostHere,
  type LostNode,
  type NewFence,
  type Noted,
  openCopy,
  type Request,
  settlesCopy,
  takeBack,
  type Unusable,
  unmarked,
  type WholeDraft,
  wasCommitted,
  whereElse,
  whyUnusable,
} from '../../volume/move/rule.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger, roundUp } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import type { IncomingBytesDraft, IncomingDraft, IncomingTreeDraft, Recorded, Transfer } from '../backend.ts';
import { deletedNow } from '../indexes/trash-entry.ts';
import {
  type Arrival,
  type Closed,
  type CopyState,
  type Incoming,
  type IncomingBytes,
  type IncomingTree,
  type LaterCopy,
  NotHandedOver,
  type PoolMoves,
  VolumeHasCome,
  VolumeWentOn,
} from '../moves.ts';
import { type ChangedRangesRequest, defaultProvisioning, sizeMultiple } from '../pool.ts';
import type { HeldSpace } from '../space/space-ledger.ts';
import { explainFull } from './full.ts';
import { refuseInUse, refuseProcessesIn } from './in-use.ts';
import { isOfMove, markIn, serializeMark } from './move-mark.ts';
import type { CatalogParts } from './parts.ts';
import { SnapshotMoves } from './snapshot-moves.ts';

/** The minimum time for which a volume that has moved stays in the trash of the pool that it came from. */
const keptSeconds = 7 * 86_400;

/**
 * Moves of volumes out of a pool and into it, and the one place that says whether a copy may be used. The rule is in
 * `volume/move/rule.ts`; here its states are made durable.
 */
export class Moves implements PoolMoves {
  readonly snapshots: SnapshotMoves;
  readonly #parts: CatalogParts;
  readonly #transfer: Transfer;
  /** Volumes that are being fenced: they are not in use, and must not come into use. */
  readonly #closing = new Set<VolumeId>();

  constructor(parts: CatalogParts, transfer: Transfer) {
    this.#parts = parts;
    this.#transfer = transfer;
    this.snapshots = new SnapshotMoves(parts, transfer, this);
  }

  /** Before the pool is used. */
  async learn(): Promise<void> {
    const { index, log, name, snapshotIndex } = this.#parts;
    await this.snapshots.learn();
    for (const { id } of [...index.all(), ...snapshotIndex.all()]) {
      await this.#noteHere(id).catch((error) =>
        log.warn({ pool: name, id, err: error }, 'the node cannot note that a volume or snapshot is here'),
      );
    }
  }

  /** An earlier driver did not note what came back, and one that was killed has not: the note says that it is on another node. */
  async #noteHere(id: SnapshotId | VolumeId): Promise<void> {
    const { generations } = this.#parts;
    if ((await generations.noted(id)).at === undefined) return;
    const { mark, why } = await this.stateOf(id);
    if (why === undefined || why === 'closed') await generations.arrived(id, mark);
  }

  async stateOf(id: SnapshotId | VolumeId): Promise<CopyState> {
    const mark = await this.#markOf(id);
    const why =
      isVolumeId(id) && this.#closing.has(id) ? 'closed' : whyUnusable(mark, await this.#parts.generations.read(id));
    return { mark, why };
  }

  /** @throws FailedPrecondition if the copy must not be used */
  async requireUsable(id: VolumeId): Promise<void> {
    const { why } = await this.stateOf(id);
    if (why !== undefined) throw unusable(this.#parts.name, id, why);
  }

  /** The same for reading alone, as snapshots and clones do: a fenced copy is the volume still. @throws FailedPrecondition */
  async requireCurrent(id: VolumeId): Promise<void> {
    const { why } = await this.stateOf(id);
    if (why === 'old' || why === 'given') throw unusable(this.#parts.name, id, why);
  }

  async verified(id: VolumeId): Promise<void> {
    await this.#parts.backend.provisioner.verify({ kind: 'volume', record: this.#require(id) });
  }

  async close(id: VolumeId, fence: NewFence): Promise<Closed> {
    const { generations, name } = this.#parts;
    const record = this.#require(id);
    await this.verified(id);
    const closed = closeCopy(await this.#markOf(id), await generations.read(id), fence);
    if (closed === undefined) {
      const { mark, why } = await this.stateOf(id);
      const before = mark.fence;
      // The same move again: its driver did not live to see the end of it.
      if (before?.moveId !== fence.moveId || before.to !== fence.to) throw unusable(name, id, why ?? 'closed');
      // Programs of the node may have come into it meanwhile: the fence keeps only pods out.
      if (!before.isGiven) await this.#refuseProcesses(record);
      return { record, fenceId: before.fenceId, generation: mark.generation };
    }
    this.#closing.add(id);
    try {
      await refuseInUse(this.#parts, record);
      await this.#refuseProcesses(record);
      await this.#writeMark(id, closed, 'move/fence');
    } finally {
      this.#closing.delete(id);
    }
    return { record, fenceId: fence.fenceId, generation: closed.generation };
  }

  /** @throws Unavailable while a process has a directory open that moves */
  async #refuseProcesses(record: VolumeRecord): Promise<void> {
    if (record.content.type !== 'directory') return;
    await using root = await this.#transfer.read({ kind: 'volume', record }).catch((error) => {
      // Something is mounted in it: the copy says so.
      if (error instanceof FailedPrecondition) return undefined;
      throw error;
    });
    if (root !== undefined) await refuseProcessesIn(this.#parts.backend.queue, root.path, record.id);
  }

  async open(id: SnapshotId | VolumeId, moveId: string): Promise<void> {
    const { generations, name } = this.#parts;
    const mark = await this.#markOf(id);
    if (mark.fence === undefined) return;
    const opened = openCopy(mark, await generations.read(id), moveId);
    if (opened === undefined) throw unusable(name, id, 'given');
    await this.#writeMark(id, opened, 'move/open');
  }

  async give(id: SnapshotId | VolumeId, request: Request): Promise<Answer> {
    const { generations, name } = this.#parts;
    const given = giveCopy(await this.#markOf(id), await generations.noted(id), request);
    if (given === undefined) {
      throw new NotHandedOver(
        `${kindOf(id)} ${id} of pool ${name} is not handed over: it is not fenced for this move any more. Start the move again.`,
      );
    }
    await step('move/generation', () => generations.write(id, given.validGeneration, given.mark.fence?.to));
    await this.#writeMark(id, given.mark, 'move/give');
    return { ...request, generation: given.validGeneration };
  }

  async settle(id: VolumeId, arrived: Arrived): Promise<boolean> {
    const record = this.#parts.index.get(id);
    if (record === undefined) return true;
    if (!settlesCopy(await this.#markOf(id), arrived, await this.#parts.generations.read(id))) return false;
    await this.#leave(record);
    return true;
  }

  /** The volume went on elsewhere: its copy goes to the trash. */
  async #leave(record: VolumeRecord): Promise<void> {
    const { backend, index, trash, unsettled } = this.#parts;
    const { id, undeleteSeconds = this.#parts.undeleteSeconds } = record;
    // The mark says so, unless its disk was put back. Earlier drivers read no entry that has more in it than they know.
    const left = (await this.#markOf(id)).fence?.isGiven === true ? {} : ({ isLeft: true } as const);
    const deletion = { ...deletedNow(Math.max(keptSeconds, undeleteSeconds), trash.poolAgeMs), ...left };
    const { isKept, ref } = await unsettled.change([id], () =>
      step('move/settle', () => backend.provisioner.removeVolume(id, deletion)),
    );
    index.delete(id);
    backend.attacher.forget?.(id);
    if (!isKept) return trash.destroy(ref);
    trash.keep({ ...deletion, ref, record });
  }

  async hasLeft(id: VolumeId): Promise<boolean> {
    const { trash } = this.#parts;
    const entry = trash.entries().find(({ record }) => record.id === id);
    return entry !== undefined && (await trash.hasLeft(entry));
  }

  async whereElse(id: VolumeId): Promise<string | undefined> {
    const { generations, index } = this.#parts;
    const left = index.get(id) === undefined ? await this.trashedMark(id) : undefined;
    return whereElse(left ?? (await this.#markOf(id)), await generations.noted(id));
  }

  async trashedMark(id: VolumeId): Promise<CopyMark | undefined> {
    const entry = this.#parts.trash.entries().find(({ record }) => record.id === id);
    return entry && markIn(await this.#transfer.markInTrash(entry.ref), id);
  }

  noted(id: SnapshotId | VolumeId): Promise<Noted> {
    return this.#parts.generations.noted(id);
  }

  async disclaim(id: SnapshotId | VolumeId, given: CopyMark, source: string, lost?: LostHere): Promise<number> {
    const { generations, name } = this.#parts;
    // A disk that was put back has an earlier copy, which stays one.
    if (await this.#isHere(id)) {
      throw new AlreadyExists(`${kindOf(id)} ${id} is in pool ${name} already.`);
    }
    const noted = await generations.noted(id);
    const generation =
      lost === undefined ? disclaim(given, noted, source, kindOf(id)) : disclaimLost(given, noted, source, lost);
    if (generation === undefined) {
      const isHere = isVolumeId(id) && hasCome(given, noted) && (lost === 'node' || !hasGoneOn(given, noted, source));
      throw isHere ? hasComeHere(id, source, lost) : wentOn(id, source, noted.at);
    }
    await step('move/generation', () => generations.write(id, generation, source));
    return generation;
  }

  async #isHere(id: SnapshotId | VolumeId): Promise<boolean> {
    const { index, snapshotIndex } = this.#parts;
    if (!isVolumeId(id)) return snapshotIndex.get(id) !== undefined;
    if (index.get(id) === undefined) return false;
    return isVolume(await this.stateOf(id));
  }

  async noteArrival(id: VolumeId): Promise<void> {
    this.#require(id);
    await this.#parts.generations.arrived(id, await this.#markOf(id));
  }

  async noteDeleted(id: SnapshotId | VolumeId): Promise<void> {
    const { generations } = this.#parts;
    const { at, deleted, generation } = await generations.noted(id);
    // Another node may have it. Older copies stay older ones.
    if (generation === 0 || at !== undefined || deleted !== undefined) return;
    // A volume may be wanted after all.
    const later = isVolumeId(id) ? generation : generation + 1;
    await step('move/generation', () => generations.writeDeleted(id, later, new Date().toISOString()));
  }

  async requireNotPast(id: SnapshotId | VolumeId, { generation }: CopyMark): Promise<void> {
    const { generations, name } = this.#parts;
    const noted = await generations.noted(id);
    if (!isPast(generation + 1, noted.generation)) return;
    const where = noted.at === undefined ? '' : `, which has gone to node ${noted.at}`;
    throw new FailedPrecondition(
      `${kindOf(id)} ${id} cannot move to pool ${name}: its node has had a later copy of a ${kindOf(id)} with this id${where}.`,
    );
  }

  async goneOn(id: VolumeId, given: CopyMark, source: string): Promise<number | undefined> {
    const noted = await this.#parts.generations.noted(id);
    return hasGoneOn(given, noted, source) ? noted.generation : undefined;
  }

  async takeBack(id: SnapshotId | VolumeId, word?: number | LostNode): Promise<void> {
    const { generations, name } = this.#parts;
    this.#recorded(id);
    const copy = await this.#markOf(id);
    const noted = await generations.noted(id);
    const mark = takeBack(copy, noted, word);
    if (mark === undefined) {
      const elsewhere = whereElse(copy, noted);
      if (elsewhere !== undefined) throw wentElsewhere(id, name, elsewhere);
      return;
    }
    if (isVolumeId(id) && whereElse(copy, noted) !== undefined) await this.#unpublish(id);
    await step('move/generation', () => generations.write(id, mark.generation));
    await this.#writeMark(id, mark, 'move/take-back');
  }

  /** The end of a publication has gone to the other node, which had the volume then. Kubernetes publishes it again where it is used. */
  async #unpublish(id: VolumeId): Promise<void> {
    const { backend, index, unsettled } = this.#parts;
    const { otherPublications: _others, publication, ...record } = this.#require(id);
    if (publication === undefined) return;
    await unsettled.change([id], () => step('publication/record', () => backend.records.writeVolume(record)));
    index.put(record);
  }

  async outdate(id: VolumeId, later: LaterCopy): Promise<boolean> {
    const { generation, node } = later;
    const { generations, index } = this.#parts;
    const record = index.get(id);
    if (record === undefined || !isOfSameVolume(record, later)) return false;
    if ((await this.#markOf(id)).generation >= generation) return false;
    if (!(await generations.isNoted(id, generation))) {
      await step('move/generation', () => generations.write(id, generation, node));
    }
    await refuseInUse(this.#parts, record);
    await this.#leave(record);
    return true;
  }

  read(id: VolumeId | SnapshotId): Promise<Descriptor> {
    return this.#transfer.read(this.#recorded(id));
  }

  async recount(id: VolumeId): Promise<void> {
    const { space } = this.#parts.backend;
    await space.recount?.(id);
  }

  get hasChanges(): boolean {
    const { changedBlocks, snapshots } = this.#parts.backend.traits;
    return snapshots === 'reflink' && changedBlocks === 'delta' && this.#transfer.changedRanges !== undefined;
  }

  changedRanges(request: ChangedRangesRequest): AsyncIterable<ByteRange> {
    const { name, snapshotIndex } = this.#parts;
    const { changedRanges } = this.#transfer;
    if (changedRanges === undefined) throw new FailedPrecondition(`pool ${name} cannot tell changed blocks.`);
    return changedRanges(request, (id) => {
      const record = snapshotIndex.get(id);
      if (record === undefined) throw new NotFound(`There is no snapshot ${id} in pool ${name}.`);
      return record;
    });
  }

  async recordFor(record: VolumeRecord): Promise<VolumeRecord> {
    const { backend, index, name } = this.#parts;
    const { adopted: _adopted, repair: _repair, source: _source, ...rest } = record;
    const { blockSizeBytes, content, encryption, id } = record;
    if (index.get(id) !== undefined) {
      throw new AlreadyExists(`volume ${id} cannot move to pool ${name}: a copy of it is there already.`);
    }
    const why = this.whyNot(record);
    if (why !== undefined) throw new FailedPrecondition(`volume ${id} cannot move to pool ${name}: ${why}.`);
    const noRoom = this.#transfer.whyNoRoom?.(id);
    if (noRoom !== undefined) throw noRoom;
    const { sectorBytes = blockSizeBytes } = this.#transfer;
    if (sectorBytes > blockSizeBytes) {
      throw new FailedPrecondition(
        `volume ${id} cannot move to pool ${name}: its ${content.type === 'block' ? 'user' : 'filesystem'} may rely on sectors of ${blockSizeBytes} bytes, and the pool's disks have sectors of ${sectorBytes}.`,
      );
    }
    const { traits } = backend;
    const provisioning = traits.provisioning.includes(record.provisioning)
      ? record.provisioning
      : defaultProvisioning(traits);
    const multiple = sizeMultiple(traits, undefined) ?? 1n;
    const wholeBytes = roundUp(storedBytes(record), multiple);
    if (traits.isOneVolume === true && wholeBytes > multiple) {
      throw new FailedPrecondition(
        `volume ${id} cannot move to pool ${name}: it needs ${storedBytes(record)} bytes, and the pool's disk has ${multiple} for its volume.`,
      );
    }
    return { ...rest, provisioning, sizeBytes: wholeBytes - BigInt(encryption?.headerBytes ?? 0) };
  }

  /** The reason why the pool cannot have something with that content; undefined: it can. */
  whyNot({
    content,
    encryption,
    ephemeral,
  }: Pick<VolumeRecord, 'content' | 'encryption' | 'ephemeral'>): string | undefined {
    const { traits } = this.#parts.backend;
    if (ephemeral !== undefined) return "it is a pod's own, and goes with its pod";
    if (content.type === 'directory' && !traits.directories) return 'its volumes are no directories';
    if (content.type === 'block' && !traits.block) return 'it has no raw block volumes';
    if (content.type === 'mount' && !traits.filesystems.includes(content.fsType)) {
      return `it has no volumes with ${content.fsType}`;
    }
    if (encryption !== undefined && traits.encryption?.includes(encryption.type) !== true) {
      return 'it has no encrypted volumes';
    }
    return undefined;
  }

  comingBytes(id: VolumeId): Promise<bigint> {
    return this.#transfer.incoming(id).takenBytes();
  }

  comingNote(id: VolumeId): Promise<string | undefined> {
    return this.#transfer.incoming(id).readNote();
  }

  async receive(record: VolumeRecord, moveId: string, isWhole = false): Promise<Incoming> {
    const { backend, index, name, space, trash } = this.#parts;
    const { id, provisioning } = record;
    const isOneVolume = backend.traits.isOneVolume === true;
    if (index.get(id) !== undefined) throw new AlreadyExists(`volume ${id} is in pool ${name} already.`);
    const draft = this.#transfer.incoming(id);
    let noted = await draft.readNote();
    const isNew = noted === undefined || !isOfMove(noted, moveId);
    if (isNew) {
      for (const ref of await draft.discard()) trash.destroy(ref);
      noted = undefined;
    }
    const wholeBytes = storedBytes(record);
    const begin = () => step('move/draft', () => draft.begin({ sizeBytes: wholeBytes, provisioning }));
    // Before its space is held: that would empty the trash for it.
    if (isOneVolume) await begin();
    const foundBytes = await draft.takenBytes();
    const held = await space.hold({
      newBytes: isWhole ? 0n : larger(0n, wholeBytes - foundBytes),
      provisioning,
      taken: async () => larger(0n, (await draft.takenBytes()) - foundBytes),
    });
    try {
      if (!isOneVolume) await begin();
      const parts = { held, isNew, noted, sizeBytes: wholeBytes, provisioning };
      if (draft.kind === 'bytes') {
        return new IncomingBytesVolume(this.#parts, { ...parts, data: await draft.open(), draft });
      }
      const directory = await draft.open();
      const links = await draft.openLinks().catch(async (error) => {
        await directory[Symbol.asyncDispose]();
        throw error;
      });
      return new IncomingTreeVolume(this.#parts, { ...parts, directory, draft, links });
    } catch (error) {
      held[Symbol.dispose]();
      throw explainFull(error, name, wholeBytes);
    }
  }

  arriving(): Promise<readonly VolumeId[]> {
    return this.#transfer.incomingVolumes();
  }

  async discard(id: VolumeId): Promise<void> {
    await step('move/discard', async () => {
      for (const ref of await this.#transfer.incoming(id).discard()) this.#parts.trash.destroy(ref);
    });
  }

  async #markOf(id: SnapshotId | VolumeId): Promise<CopyMark> {
    if (isVolumeId(id) && this.#isUnmarked(id)) return unmarked;
    return markIn(await this.#transfer.readMark(id), id);
  }

  /** A volume that was made from nothing by this process, and never marked. */
  #isUnmarked(id: VolumeId): boolean {
    const record = this.#recordOf(id);
    // A copy may be made in the draft of a move that was given up.
    return record !== undefined && record.source === undefined && this.#parts.untouched.has(record);
  }

  #recordOf(id: VolumeId): VolumeRecord | undefined {
    const { index } = this.#parts;
    return index.isDamaged(id) ? undefined : index.get(id);
  }

  /** Durably. */
  async #writeMark(id: VolumeId | SnapshotId, mark: CopyMark, name: MarkStep): Promise<void> {
    const record = isVolumeId(id) ? this.#recordOf(id) : undefined;
    if (record !== undefined) this.#parts.untouched.delete(record);
    await step(name, () => this.#transfer.writeMark(id, serializeMark(mark)));
  }

  /** The fence of a snapshot: nothing has to be kept away from it. */
  async fence(id: SnapshotId, fence: NewFence): Promise<Fence> {
    const { generations, name } = this.#parts;
    const mark = await this.#markOf(id);
    const closed = closeCopy(mark, await generations.read(id), fence);
    if (closed !== undefined) await this.#writeMark(id, closed, 'move/fence');
    const standing = (closed ?? mark).fence;
    if (standing === undefined) throw unusable(name, id, 'old');
    return standing;
  }

  #require(id: VolumeId): VolumeRecord {
    const record = this.#parts.index.get(id);
    if (record === undefined) throw new NotFound(`There is no volume ${id} in pool ${this.#parts.name}.`);
    return record;
  }

  #recorded(id: VolumeId | SnapshotId): Recorded {
    if (isVolumeId(id)) return { kind: 'volume', record: this.#require(id) };
    const record = this.#parts.snapshotIndex.get(id);
    if (record === undefined) throw new NotFound(`There is no snapshot ${id} in pool ${this.#parts.name}.`);
    return { kind: 'snapshot', record };
  }
}

type MarkStep = 'move/fence' | 'move/give' | 'move/open' | 'move/take-back';

interface IncomingParts extends Pick<Incoming, 'isNew' | 'noted'>, Pick<VolumeRecord, 'provisioning'> {
  readonly draft: IncomingDraft;
  readonly held: HeldSpace;
  readonly sizeBytes: bigint;
}

abstract class IncomingVolume {
  readonly isNew: boolean;
  readonly noted: string | undefined;
  readonly #parts: CatalogParts;
  readonly #draft: IncomingDraft;
  readonly #held: HeldSpace;
  readonly #more: HeldSpace[] = [];
  #provisioning: VolumeRecord['provisioning'];
  #sizeBytes: bigint;
  #hasEnded = false;

  constructor(parts: CatalogParts, { draft, held, isNew, noted, provisioning, sizeBytes }: IncomingParts) {
    this.#parts = parts;
    this.isNew = isNew;
    this.noted = noted;
    this.#draft = draft;
    this.#held = held;
    this.#provisioning = provisioning;
    this.#sizeBytes = sizeBytes;
  }

  /** The open files of it. */
  protected abstract readonly opened: readonly Descriptor[];

  async note(text: string): Promise<void> {
    await step('move/progress', () => this.#draft.writeNote(text));
  }

  async fit(record: VolumeRecord): Promise<void> {
    await this.#grow(record);
    if (record.provisioning === 'thick' && this.#provisioning === 'thin') await this.#makeThick();
  }

  /** All of its blocks are taken now, as those of the volume were (`Volumes.modify`). */
  async #makeThick(): Promise<void> {
    const { name, space } = this.#parts;
    const wholeBytes = this.#sizeBytes;
    const beforeBytes = await this.#draft.takenBytes();
    const taken = async () => (await this.#draft.takenBytes()) - beforeBytes;
    using _space = await space.hold({ newBytes: 0n, takenBytes: larger(0n, wholeBytes - beforeBytes), taken });
    try {
      await this.#draft.begin({ sizeBytes: wholeBytes, provisioning: 'thick' });
    } catch (error) {
      throw explainFull(error, name, wholeBytes);
    }
    this.#provisioning = 'thick';
  }

  async #grow(record: VolumeRecord): Promise<void> {
    const wholeBytes = storedBytes(record);
    if (wholeBytes <= this.#sizeBytes) return;
    const { name, space } = this.#parts;
    this.#more.push(
      await space.hold({ newBytes: wholeBytes - this.#sizeBytes, provisioning: record.provisioning, isGrowth: true }),
    );
    try {
      await this.#draft.resize(wholeBytes);
    } catch (error) {
      throw explainFull(error, name, wholeBytes);
    }
    this.#sizeBytes = wholeBytes;
  }

  async commit(record: VolumeRecord, { answer, from, mark }: Arrival): Promise<void> {
    const { generations, name } = this.#parts;
    const { id } = record;
    const noted = await generations.noted(id);
    const committed = commitDraft(mark, noted, answer, from);
    if (committed === undefined) {
      if (from !== undefined && wasCommitted(answer.generation, noted, from)) throw hasComeHere(id, from, undefined);
      throw new FailedPrecondition(
        `volume ${id} does not arrive in pool ${name}: the answer of its source is not for this copy. Start the move again.`,
      );
    }
    await this.#become(record, committed, from);
  }

  async finish(record: VolumeRecord, draft: WholeDraft, lost: LostNode | undefined): Promise<void> {
    await this.#become(record, await this.#finished(record.id, draft, lost), lost?.lostNode);
  }

  async requireFinishable(id: VolumeId, draft: WholeDraft, lost: LostNode | undefined): Promise<void> {
    await this.#finished(id, draft, lost);
  }

  async #finished(id: VolumeId, draft: WholeDraft, lost: LostNode | undefined): Promise<CopyMark> {
    const { generations, name } = this.#parts;
    const noted = await generations.noted(id);
    const finished = finishDraft(draft, noted, lost);
    if (finished !== undefined) return finished;
    throw new FailedPrecondition(
      `volume ${id} has been on this node, and has gone on to ${noted.at === undefined ? 'another pool' : `node ${noted.at}`}: the copy in pool ${name} is an earlier one, and does not become the volume.`,
    );
  }

  /** From the commit on it is the volume. */
  async #become(record: VolumeRecord, mark: CopyMark, from: string | undefined): Promise<void> {
    const { generations, index, unsettled } = this.#parts;
    const { id } = record;
    const commit = async () => {
      await step('move/complete', () => this.#draft.complete(record, serializeMark(mark)));
      await unsettled.change([id], () => step('move/commit', () => this.#draft.commit()));
      index.put(record);
      await this.#draft.forgetNote().catch(() => undefined);
    };
    await generations.arrive(id, { mark, from, commit });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const each of [this.#held, ...this.#more]) each[Symbol.dispose]();
    for (const file of this.opened) await file[Symbol.asyncDispose]();
  }
}

class IncomingBytesVolume extends IncomingVolume implements IncomingBytes {
  readonly kind = 'bytes';
  readonly data: Descriptor;
  readonly #bytes: IncomingBytesDraft;

  constructor(parts: CatalogParts, own: IncomingParts & Pick<IncomingBytes, 'data'> & { draft: IncomingBytesDraft }) {
    super(parts, own);
    this.data = own.data;
    this.#bytes = own.draft;
  }

  get isBlank(): boolean {
    return this.#bytes.isBlank;
  }

  get isRestAny(): boolean {
    return this.#bytes.isRestAny === true;
  }

  zero(range: ByteRange): Promise<void> {
    return this.#bytes.zero(this.data, range);
  }

  protected get opened(): readonly Descriptor[] {
    return [this.data];
  }
}

class IncomingTreeVolume extends IncomingVolume implements IncomingTree {
  readonly kind = 'tree';
  readonly directory: Descriptor;
  readonly links: Descriptor;
  readonly #tree: IncomingTreeDraft;

  constructor(
    parts: CatalogParts,
    own: IncomingParts & Pick<IncomingTree, 'directory' | 'links'> & { draft: IncomingTreeDraft },
  ) {
    super(parts, own);
    this.#tree = own.draft;
    this.directory = own.directory;
    this.links = own.links;
  }

  get limitBytes(): bigint {
    return this.#tree.limitBytes;
  }

  protected get opened(): readonly Descriptor[] {
    return [this.directory, this.links];
  }
}

function wentElsewhere(id: SnapshotId | VolumeId, poolName: string, node: string): FailedPrecondition {
  return new FailedPrecondition(
    `${kindOf(id)} ${id} was handed over by pool ${poolName}, and may be on node ${node}. If that node will never come back, or is this one under another name: --node-is-lost ${node}.`,
  );
}

function hasComeHere(id: VolumeId, source: string, lost: LostHere | undefined): VolumeHasCome {
  // The source has its copy still, which was handed over, and this node knows nothing of the move any more.
  const way = `kubectl holdfast move cancel ${id}${lost === undefined ? '' : ` --node ${source}`} --even-so`;
  return new VolumeHasCome(
    `volume ${id} has come to this node, as it has noted on another disk, into a pool that is not in the configuration, or whose disk is another one, or as it was before. Put that pool and its disk back. If the disk is lost, the copy on node ${source}, of the time of the switch, becomes the volume: ${way}.`,
  );
}

function wentOn(id: SnapshotId | VolumeId, source: string, node: string | undefined): VolumeWentOn {
  const where = node === undefined ? 'another pool of it' : `node ${node}`;
  return new VolumeWentOn(
    `${kindOf(id)} ${id} has been on this node, and has gone on to ${where}: its copy on node ${source} is an earlier one${isVolumeId(id) ? ', and goes to the trash there' : ''}.`,
  );
}

function unusable(poolName: string, id: SnapshotId | VolumeId, why: Unusable): FailedPrecondition {
  switch (why) {
    case 'closed':
      return new FailedPrecondition(
        `volume ${id} is moving out of pool ${poolName}, and cannot be used until that has ended: see holdfast move status.`,
      );
    case 'given':
      return new FailedPrecondition(
        `${kindOf(id)} ${id} was handed over by pool ${poolName}, and this copy must not be used: see holdfast move status.`,
      );
    case 'old':
      return new FailedPrecondition(
        `${kindOf(id)} ${id} has moved since its copy in pool ${poolName} was the valid one, and this copy must not be used: see docs/move.md.`,
      );
  }
}

/** The clocks of nodes differ: a time is compared with another one only where nothing better is known. */
function isOfSameVolume(record: VolumeRecord, { at, createdAt }: LaterCopy): boolean {
  return createdAt === undefined ? Date.parse(record.createdAt) <= Date.parse(at) : record.createdAt === createdAt;
}
