import { join } from 'node:path';
import { CommandError, run } from '../../../command/run.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { InternalError, Unavailable } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import type { SnapshotId } from '../../../volume/id.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { PoolLog } from '../../log.ts';
import type { ProgramConfig } from './config.ts';
import { requireTrusted } from './program-file.ts';

/** One call of a program. */
export interface ProgramCall {
  readonly program: ProgramConfig;
  /** undefined: it is about no volume or snapshot. */
  readonly handle: VolumeHandle | SnapshotId | undefined;
  readonly verb: string;
  /** After the verb. */
  readonly args: readonly string[];
  readonly input?: string;
  readonly secrets?: Secrets | undefined;
  readonly outputLimitBytes?: number;
}

/** The place where programs run. */
export interface ProgramPlace {
  /** For files beside the volume, which may hang. */
  readonly queue: DiskQueue;
  /** Directory of the locks, one for each volume: a call of a driver that died may still run. */
  readonly locks: string;
  readonly log: PoolLog;
}

/** A program's answer, not yet read. */
export interface ProgramEnd {
  readonly exitCode: number;
  readonly text: string;
  /** The program's words for a person or a log, without secrets. */
  readonly shown: (words: string) => string;
}

const usualLimitBytes = 1 << 16;
const linesLogged = 20;
const longestLine = 200;

/**
 * Runs a program for one call. Its errors have no word of its output: that may hold anything.
 * @throws FailedPrecondition if it must not be run, Unavailable at its deadline, InternalError
 */
export async function runProgram(
  place: ProgramPlace,
  call: ProgramCall,
  { about, lockName }: Pick<WaitOptions, 'about' | 'lockName'>,
): Promise<ProgramEnd> {
  const { args, handle, input, outputLimitBytes = usualLimitBytes, program, secrets, verb } = call;
  const { locks, log, queue } = place;
  const { name, path, timeoutMs } = program;
  const shown = (words: string) => presentable(words, secrets);
  await requireTrusted(queue, program);
  let lines = 0;
  const onLine = (line: string, from: 'stdout' | 'stderr') => {
    if (from === 'stdout' || ++lines > linesLogged) return;
    log.info({ program: name, verb, volume_id: handle, line: shown(line) }, 'a program wrote to its standard error');
  };
  try {
    const { exitCode, stdout } = await run(path, [verb, ...args], {
      ...{ inGroup: true, timeoutMs, lockPath: lockPathIn(locks, lockName), outputLimitBytes, onLine },
      ...(input === undefined ? {} : { input }),
      accept: anyExitCode,
    });
    return { exitCode, text: stdout, shown };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // Without what the program wrote.
    if (error.limit === 'output') {
      throw new InternalError(
        `${about} was killed in ${verb}: it wrote more than ${outputLimitBytes >> 10} KiB to its standard output, or 16 MiB to its standard error.`,
      );
    }
    if (error.limit === 'time') {
      throw new Unavailable(
        `${about} did not finish ${verb} within ${timeoutMs / 1000} s: it was killed with its children. It is called again.`,
      );
    }
    throw new InternalError(`${about} could not be run, or was killed, in ${verb}; see the log of the driver.`);
  }
}

interface WaitOptions {
  readonly program: ProgramConfig;
  readonly about: string;
  readonly lockName: string;
}

/** Waits until no call runs. */
export async function waitForCall({ locks }: ProgramPlace, { about, lockName, program }: WaitOptions): Promise<void> {
  const { timeoutMs } = program;
  try {
    await run('true', [], { inGroup: true, timeoutMs, lockPath: lockPathIn(locks, lockName) });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new Unavailable(
      `${about} still runs from before the driver was started: it is called again when that ended.`,
    );
  }
}

function lockPathIn(locks: string, lockName: string): string {
  return join(locks, `${lockName}.lock`);
}

const anyExitCode = Array.from({ length: 256 }, (_, code) => code);

/** Text of a program for a message or the log: short, on one line, without secrets. */
export function presentable(words: string, secrets: Secrets | undefined): string {
  let text = words;
  const values = (secrets?.names() ?? []).map((name) => secrets?.get(name) ?? '');
  // The longest first: one secret may begin with another one, and its rest would stay.
  const forms = values.flatMap(formsOf).sort((one, other) => other.length - one.length);
  for (const form of forms) if (form.length > 1) text = text.replaceAll(form, '***');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
  const plain = text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufffd]+/g, ' ').trim();
  return plain.length > longestLine ? `${plain.slice(0, longestLine)}…` : plain;
}

/** A secret as it is, as FlexVolume encodes it, as JSON does, and its lines; without the space around it, too. */
function formsOf(secret: string): string[] {
  return [secret, secret.trim()].flatMap((value) => [
    value,
    Buffer.from(value).toString('base64'),
    JSON.stringify(value).slice(1, -1),
    ...value.split('\n'),
  ]);
}
