import { z } from 'zod';
import { FailedPrecondition, InternalError } from '../../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import { storedBytes } from '../../../volume/stored-json.ts';
import type { Recorded } from '../../backend.ts';
import { ProgramCalls } from './calls.ts';
import type { ProgramConfig } from './config.ts';
import type { ProgramPlace } from './run-program.ts';

const capacityAnswer = z.looseObject({ totalBytes: storedBytes, availableBytes: storedBytes });
const names = z.array(z.string().max(128));
const listAnswer = z.looseObject({ volumes: names, snapshots: names.optional() });
/** Some hundred thousand volumes. */
const listLimitBytes = 1 << 24;

/** The calls of a program that make volumes and snapshots. Each may be called again with the same one at any time. */
export class StorageCalls {
  readonly #program: ProgramConfig;
  readonly #place: ProgramPlace;
  readonly #options: Readonly<Record<string, string>>;

  constructor(program: ProgramConfig, place: ProgramPlace, options: Readonly<Record<string, string>>) {
    this.#program = program;
    this.#place = place;
    this.#options = options;
  }

  /** @param source the volume or snapshot that it has the content of; undefined: it is empty */
  async create(record: VolumeRecord, secrets: Secrets | undefined, source: Recorded | undefined): Promise<void> {
    const { id, name, sizeBytes } = record;
    const from = source === undefined ? {} : { [fromKeys[source.kind]]: source.record.id };
    await this.#require('create', id, { volume: id, name, sizeBytes: `${sizeBytes}`, ...from }, secrets);
  }

  async delete(id: VolumeId): Promise<void> {
    await this.#require('delete', id, { volume: id });
  }

  async grow({ id, sizeBytes }: Pick<VolumeRecord, 'id' | 'sizeBytes'>): Promise<void> {
    await this.#require('grow', id, { volume: id, sizeBytes: `${sizeBytes}` });
  }

  async snapshot({ id, name, sourceId }: SnapshotRecord): Promise<void> {
    await this.#require('snapshot', id, { snapshot: id, volume: sourceId, name });
  }

  async deleteSnapshot(id: SnapshotId): Promise<void> {
    await this.#require('delete-snapshot', id, { snapshot: id });
  }

  /** undefined: the program does not say. */
  async capacity(): Promise<{ readonly totalBytes: bigint; readonly availableBytes: bigint } | undefined> {
    const answer = await this.#about().ask('capacity', { options: this.#options });
    if (answer === undefined) return undefined;
    const parsed = parseInput(capacityAnswer, answer.fields);
    if ('data' in parsed) {
      const { availableBytes, totalBytes } = parsed.data;
      return { totalBytes: BigInt(totalBytes), availableBytes: BigInt(availableBytes) };
    }
    throw new InternalError(
      `program ${this.#program.name} has no totalBytes and availableBytes in its answer to capacity, as text of digits.`,
    );
  }

  /** The ids of the volumes and snapshots that the storage has; undefined: the program does not say. */
  async list(): Promise<ReadonlySet<string> | undefined> {
    const answer = await this.#about().ask('list', { options: this.#options }, { outputLimitBytes: listLimitBytes });
    if (answer === undefined) return undefined;
    const parsed = parseInput(listAnswer, answer.fields);
    const { snapshots, volumes = [] } = 'data' in parsed ? parsed.data : {};
    // An answer without lists does not say that nothing is there.
    if ('data' in parsed && (snapshots !== undefined || !this.#program.snapshots)) {
      return new Set([...volumes, ...(snapshots ?? [])]);
    }
    throw new InternalError(
      `program ${this.#program.name} answers list with something else than volumes and snapshots, lists of their ids.`,
    );
  }

  #about(): ProgramCalls {
    return new ProgramCalls(this.#program, this.#place, undefined);
  }

  /** Waits for a call that a home before this one has begun for the volume or snapshot. */
  async #require(
    verb: string,
    id: VolumeId | SnapshotId,
    request: Readonly<Record<string, string>>,
    secrets?: Secrets,
  ): Promise<void> {
    const calls = new ProgramCalls(this.#program, this.#place, id);
    const answer = await calls.ask(verb, { options: this.#options, ...request }, { secrets });
    if (answer !== undefined) return;
    throw new FailedPrecondition(`${calls.about} does not support ${verb}.`);
  }
}

const fromKeys = { volume: 'fromVolume', snapshot: 'fromSnapshot' } as const;
