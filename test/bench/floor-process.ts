import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { volumeIdFor } from '../../src/volume/id.ts';
import { serializeRecord } from '../../src/volume/record.ts';
import { volumeBytes } from './life.ts';

/** What the floor needs to know; it makes no choices of its own. */
export interface FloorPlan {
  /** On the filesystem that the driver's pool is on. */
  readonly poolDirectory: string;
  /** On the filesystem that the driver's targets are on. */
  readonly targetDirectory: string;
  readonly mkfsPath: string;
  readonly record: string;
  readonly loop: { readonly blockSizeBytes: number; readonly directIo: boolean };
}

export interface FloorReport {
  readonly elapsedMs: number;
  /** For each life the milliseconds of each step, in the order of `rpcs`. */
  readonly stepMs: readonly (readonly number[])[];
}

/** The process that runs the floor, and waits between rounds. */
export class FloorProcess implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(plan: Pick<FloorPlan, 'poolDirectory' | 'targetDirectory' | 'loop'>): Promise<FloorProcess> {
    const complete: FloorPlan = { ...plan, mkfsPath: findProgram('mkfs.ext4'), record: sampleRecord() };
    const child = fork(join(import.meta.dirname, 'floor.ts'), [JSON.stringify(complete)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      // Ctrl-C is for the bench, which then ends this.
      detached: true,
    });
    const floor = new FloorProcess(child);
    await floor.#answer();
    return floor;
  }

  async run(lives: number): Promise<FloorReport> {
    const answer = this.#answer();
    this.#child.send(lives);
    return (await answer) as FloorReport;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.disconnect();
    await gone;
  }

  async #answer(): Promise<unknown> {
    const gone = new AbortController();
    const died = once(this.#child, 'exit', { signal: gone.signal }).then(() => {
      throw new Error('the floor ended by itself; see above');
    });
    died.catch(() => undefined);
    try {
      const [message] = (await Promise.race([once(this.#child, 'message'), died])) as unknown[];
      return message;
    } finally {
      gone.abort();
    }
  }
}

/** The record the driver would write, so that as many bytes are made durable. */
function sampleRecord(): string {
  const name = 'bench-0-0000000000';
  return serializeRecord({
    id: volumeIdFor('bench', 'bench', name),
    name,
    sizeBytes: BigInt(volumeBytes),
    content: { type: 'mount', fsType: 'ext4' },
    accessModes: ['SINGLE_NODE_WRITER'],
    provisioning: 'thin',
    parameters: { pool: 'directory' },
    blockSizeBytes: 512,
    createdAt: new Date(0).toISOString(),
  });
}

function findProgram(name: string): string {
  for (const directory of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // The next one may have it.
    }
  }
  throw new Error(`${name} is not installed`);
}
