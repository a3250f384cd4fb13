import { FailedPrecondition, InternalError, Unavailable } from '../../../volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../../volume/handle.ts';
import { parseSnapshotId, type SnapshotId } from '../../../volume/id.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { step } from '../../../volume/step.ts';
import { type Answer, parseAnswer } from './answer.ts';
import type { ProgramConfig } from './config.ts';
import { requireTrusted } from './program-file.ts';
import { type ProgramPlace, runProgram, waitForCall } from './run-program.ts';

/** The words for a program beside the verb. */
export interface Passed {
  readonly args?: readonly string[];
  readonly input?: string;
  readonly secrets?: Secrets | undefined;
  readonly outputLimitBytes?: number;
}

/** The calls of one program for one volume or snapshot. */
export class ProgramCalls {
  readonly program: ProgramConfig;
  readonly #place: ProgramPlace;
  readonly #handle: VolumeHandle | SnapshotId | undefined;

  /** @param handle undefined: they are for none */
  constructor(program: ProgramConfig, place: ProgramPlace, handle: VolumeHandle | SnapshotId | undefined) {
    this.program = program;
    this.#place = place;
    this.#handle = handle;
  }

  get about(): string {
    const { name } = this.program;
    if (this.#handle === undefined) return `program ${name}`;
    const kind = parseSnapshotId(this.#handle) === undefined ? 'volume' : 'snapshot';
    return `${kind} ${this.#handle}: program ${name}`;
  }

  async requireTrusted(): Promise<void> {
    await requireTrusted(this.#place.queue, this.program);
  }

  /** Waits for a call that a driver which died has begun. @throws Unavailable if it takes longer than a call may */
  async settle(): Promise<void> {
    await waitForCall(this.#place, { program: this.program, ...this.#named('') });
  }

  /** @returns undefined: it has no such call @throws Unavailable if it fails, InternalError if it answers nonsense */
  async call(verb: string, { args = [], input, outputLimitBytes, secrets }: Passed = {}): Promise<Answer | undefined> {
    const { program } = this;
    const more = {
      ...(input === undefined ? {} : { input }),
      ...(outputLimitBytes === undefined ? {} : { outputLimitBytes }),
    };
    const call = { program, handle: this.#handle, verb, args, secrets, ...more };
    const run = () => runProgram(this.#place, call, this.#named(verb));
    // A call for no volume changes nothing.
    const { exitCode, shown, text } = await (this.#handle === undefined ? run() : step('exec/run', run));
    const answer = parseAnswer(text);
    if (answer === undefined) {
      const why = exitCode === 0 ? 'its answer is no JSON with a status' : `it ended with ${endOf(exitCode)}`;
      throw new InternalError(`${this.about} failed in ${verb}: ${why}; see the log of the driver.`);
    }
    if (answer.status === 'Not supported') return undefined;
    const message = answer.message === '' ? '' : shown(answer.message);
    if (answer.status === 'Failure') {
      throw new Unavailable(`${this.about} failed in ${verb}${message === '' ? '' : `: ${message}`}`);
    }
    if (exitCode === 0) return { ...answer, message };
    throw new InternalError(`${this.about} says Success in ${verb}, and ended with ${endOf(exitCode)}.`);
  }

  /** Asks with JSON on standard input: secrets too, which are in neither arguments nor environment. */
  ask(
    verb: string,
    request: Readonly<Record<string, unknown>>,
    { outputLimitBytes, secrets }: Pick<Passed, 'outputLimitBytes' | 'secrets'> = {},
  ): Promise<Answer | undefined> {
    const named = Object.fromEntries((secrets?.names() ?? []).map((name) => [name, secrets?.get(name)]));
    const input = `${JSON.stringify({ version: 1, verb, ...request, secrets: named })}\n`;
    return this.call(verb, { input, secrets, ...(outputLimitBytes === undefined ? {} : { outputLimitBytes }) });
  }

  /** One call runs at a time for a volume or snapshot. Calls for none change nothing, and only the same ones wait for each other. */
  #named(verb: string) {
    const lockName = this.#handle === undefined ? `program-${this.program.name}-${verb}` : fileNameOf(this.#handle);
    return { about: this.about, lockName };
  }

  /** It says something that is not so. */
  wrong(words: string): FailedPrecondition {
    return new FailedPrecondition(`${this.about} ${words}`);
  }
}

function endOf(exitCode: number): string {
  return exitCode > 128 ? `signal ${exitCode - 128}` : `exit code ${exitCode}`;
}
