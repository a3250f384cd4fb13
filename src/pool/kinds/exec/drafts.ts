import { readdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import { TurnsByKey } from '../../../volume/flow/turns.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import type { Clone, Draft, NewData, Recorded, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import { SnapshotFileDraft, VolumeFileDraft } from '../../records/file-draft.ts';
import type { ExecParts } from './backend.ts';

/** The tries of this process to make something, by the directories of their drafts, and the turns of the program's calls. */
export class Tries {
  /** Drafts whose rest is not destroyed yet. */
  readonly #own = new Set<string>();
  readonly #underWay = new Map<string, VolumeId | SnapshotId>();
  readonly #turns = new TurnsByKey<VolumeId | SnapshotId>();

  inTurn<T>(id: VolumeId | SnapshotId, work: () => Promise<T>): Promise<T> {
    return this.#turns.run(id, work);
  }

  /** The steps of a draft by which its try is known from its beginning to its end. */
  stepsOf(draft: ExecDraft | ExecSnapshotDraft): Pick<Draft, 'begin' | 'commit' | 'discard'> {
    const { directory, id } = draft;
    return {
      begin: async () => {
        this.#own.add(directory);
        this.#underWay.set(directory, id);
        await draft.begin();
      },
      commit: async () => {
        await draft.commit();
        this.#own.delete(directory);
        this.#underWay.delete(directory);
      },
      discard: async () => {
        const ref = await draft.discard();
        this.#underWay.delete(directory);
        return ref;
      },
    };
  }

  has(directory: string): boolean {
    return this.#own.has(directory);
  }

  forget(directory: string): void {
    this.#own.delete(directory);
  }

  isOnItsWay(id: VolumeId | SnapshotId): boolean {
    return [...this.#underWay.values()].includes(id);
  }
}

/** A volume on its way: an intent record, the call, and the rename by which it exists. */
export class ExecDraft extends VolumeFileDraft<ExecParts> implements VolumeDraft {
  readonly #tries: Tries;
  #source: Recorded | undefined;

  constructor(parts: ExecParts, id: VolumeId, tries: Tries) {
    super(parts, id);
    this.#tries = tries;
  }

  async check({ undeleteSeconds = 0 }: VolumeRecord): Promise<void> {
    if (undeleteSeconds > 0) {
      throw new InvalidArgument(`pool ${this.parts.name} keeps no deleted volumes: leave undelete out of the class.`);
    }
  }

  /** The one call that makes the volume copies the content, too. */
  clone(source: Recorded): Clone {
    this.#source = source;
    return byTheProgram;
  }

  async make(record: VolumeRecord, { secrets }: NewData): Promise<void> {
    await this.#make(record, secrets);
  }

  async complete(record: VolumeRecord, { secrets }: Omit<NewData, 'mkfsArguments'>): Promise<void> {
    await this.#make(record, secrets);
  }

  async #make(record: VolumeRecord, secrets: Secrets | undefined): Promise<void> {
    await this.writeRecord(record);
    await syncDraft(this.parts, this.directory);
    await this.#tries.inTurn(record.id, () => this.parts.storage.create(record, secrets, this.#source));
  }
}

/** A snapshot on its way, in the same way. */
export class ExecSnapshotDraft extends SnapshotFileDraft<ExecParts> implements SnapshotDraft {
  readonly #tries: Tries;

  constructor(parts: ExecParts, id: SnapshotId, tries: Tries) {
    super(parts, id);
    this.#tries = tries;
  }

  clone({ kind, record }: Recorded): Clone {
    if (kind === 'volume') return byTheProgram;
    throw new FailedPrecondition(`pool ${this.parts.name}: its program takes no snapshot of snapshot ${record.id}.`);
  }

  override async complete(record: SnapshotRecord): Promise<void> {
    await this.writeRecord(record);
    await syncDraft(this.parts, this.directory);
    await this.#tries.inTurn(record.id, async () => {
      // One that an earlier try has taken shows an earlier moment than the record says.
      if (await this.#hasEarlierTry()) await this.parts.storage.deleteSnapshot(record.id);
      await this.parts.storage.snapshot(record);
    });
  }

  async #hasEarlierTry(): Promise<boolean> {
    const { layout, queue } = this.parts;
    const names = await queue.run(() => readdir(layout.drafts));
    return names.some((name) => name.startsWith(`${this.id}.`) && name !== basename(this.directory));
  }
}

/** Durable before the program makes anything. */
async function syncDraft({ layout, queue, syncs }: ExecParts, directory: string): Promise<void> {
  await syncs.sync(queue, directory);
  await syncs.sync(queue, layout.drafts);
}

const byTheProgram: Clone = { complete: async () => undefined };
