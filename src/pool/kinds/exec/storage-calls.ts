import { z } from 'zod';
import { FailedPrecondition, InternalError } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { storedBytes } from '../../../volume/stored-json.ts';
import { ProgramCalls } from './calls.ts';
import type { ProgramConfig } from './config.ts';
import type { ProgramPlace } from './run-program.ts';

const capacityAnswer = z.looseObject({ totalBytes: storedBytes, availableBytes: storedBytes });

/** The calls of a program that make volumes. Each may be called again with the same volume at any time. */
export class StorageCalls {
  readonly #program: ProgramConfig;
  readonly #place: ProgramPlace;
  readonly #options: Readonly<Record<string, string>>;

  constructor(program: ProgramConfig, place: ProgramPlace, options: Readonly<Record<string, string>>) {
    this.#program = program;
    this.#place = place;
    this.#options = options;
  }

  async create({ id, name, sizeBytes }: VolumeRecord, secrets: Secrets | undefined): Promise<void> {
    await this.#require('create', id, { name, sizeBytes: `${sizeBytes}` }, secrets);
  }

  async delete(id: VolumeId): Promise<void> {
    await this.#require('delete', id, {});
  }

  async grow({ id, sizeBytes }: Pick<VolumeRecord, 'id' | 'sizeBytes'>): Promise<void> {
    await this.#require('grow', id, { sizeBytes: `${sizeBytes}` });
  }

  /** undefined: the program does not say. */
  async capacity(): Promise<{ readonly totalBytes: bigint; readonly availableBytes: bigint } | undefined> {
    const calls = new ProgramCalls(this.#program, this.#place, undefined);
    const answer = await calls.ask('capacity', { options: this.#options });
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

  /** Waits for a call that a home before this one has begun for the volume. */
  async #require(verb: string, id: VolumeId, request: Record<string, string>, secrets?: Secrets): Promise<void> {
    const calls = new ProgramCalls(this.#program, this.#place, id);
    const answer = await calls.ask(verb, { volume: id, options: this.#options, ...request }, secrets);
    if (answer !== undefined) return;
    throw new FailedPrecondition(`${calls.about} does not support ${verb}.`);
  }
}
