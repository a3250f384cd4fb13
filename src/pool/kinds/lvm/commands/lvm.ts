import { CommandError, run } from '../../../../command/run.ts';
import { devicePathOf } from '../../../../kernel/block/device-node.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { syncFile } from '../../../../kernel/file/file.ts';
import { DataLoss } from '../../../../volume/errors.ts';
import { reportArguments } from './arguments.ts';
import { type CopyOfPv, copyToldOf, tellsOfDifference } from './difference.ts';
import { wasKilled } from './failure.ts';
import type { LvmRunner } from './place.ts';
import { ReportReader, type ReportRow } from './report.ts';
import { configFor } from './settings.ts';

/** LVM takes its commands one after the other, by a lock: a second process at a time only waits for the first. */
const commandsAtOnce = 1;

const flushesAtOnce = 4;

/** The rows of a report, by the section that they stand in. */
export interface Report {
  /** The disks of the group differ in what they say of it, which a command can mend. */
  readonly isDifferent: boolean;
  /** The copies in all groups that LVM has looked at. */
  readonly copies: readonly CopyOfPv[];
  readonly vg: readonly ReportRow[];
  readonly pv: readonly ReportRow[];
  readonly lv: readonly ReportRow[];
  readonly seg: readonly ReportRow[];
}

/**
 * The one door to LVM. What changes something is never killed: half of a change is worse than a slow one. So a caller that
 * leaves changes nothing, and a retry finds what became of it.
 */
export class Lvm {
  readonly runner: LvmRunner;
  readonly #queue: DiskQueue;
  readonly #flushQueue: DiskQueue;
  readonly #resumeQueue: DiskQueue;
  /** The disks of the volume group: LVM looks at no other, one that hangs say. undefined: not known yet. */
  #devicePaths: readonly string[] | undefined;
  #hasThinPool = false;
  /** Ends what a command that was killed has left. No other command is under way then. */
  whenKilled: (queue: DiskQueue) => Promise<void> = async () => undefined;
  /** Hears of a command that takes long: all others of the pool wait for it. */
  whenSlow: (command: string) => void = () => undefined;
  readonly #slowAfterMs: number;

  constructor(runner: LvmRunner, queue: DiskQueue, slowAfterMs = 60_000) {
    this.runner = runner;
    this.#slowAfterMs = slowAfterMs;
    this.#queue = queue.beside('lvm', commandsAtOnce);
    this.#flushQueue = queue.beside('flushes', flushesAtOnce);
    this.#resumeQueue = queue.beside('left suspended', 1);
  }

  /** From now on only these are looked at; undefined: all. */
  lookOnlyAt(devicePaths: readonly string[] | undefined): void {
    this.#devicePaths = devicePaths;
  }

  /** From now on thin pools are ours to look after. */
  lookAfterThinPool(): void {
    this.#hasThinPool = true;
  }

  /** @param lockPath locked until the command ends, also if the driver dies before @throws CommandError */
  async change(args: readonly string[], lockPath?: string): Promise<void> {
    const { before, environment, program } = this.runner;
    const words = [...before, ...this.#command(args)];
    await this.#alone(args, async () => {
      try {
        await run(program, words, { environment, mustFinish: true, keep: 'end', ...(lockPath && { lockPath }) });
      } catch (error) {
        // The caller sees the failure anyway, and the next opening of the pool resumes whatever is still suspended.
        if (isLvmError(error) && wasKilled(error)) await this.whenKilled(this.#resumeQueue).catch(() => undefined);
        throw error;
      }
    });
  }

  /**
   * Makes the changes until now durable. LVM writes to its disks past the page cache, but does not make them write out their
   * own caches.
   */
  async flush(disks: readonly DeviceNumber[]): Promise<void> {
    const queue = this.#flushQueue;
    await Promise.all(disks.map(async (disk) => syncFile(queue, await devicePathOf(queue, disk))));
  }

  /** @throws CommandError */
  async report(vgName: string | undefined): Promise<Report> {
    const rows = {
      vg: [] as ReportRow[],
      pv: [] as ReportRow[],
      lv: [] as ReportRow[],
      seg: [] as ReportRow[],
    };
    let isDifferent = false;
    const copies: CopyOfPv[] = [];
    await this.#read(
      reportArguments(vgName),
      (section, row) => {
        if (section === 'vg' || section === 'pv' || section === 'lv' || section === 'seg') rows[section].push(row);
      },
      (line) => {
        isDifferent ||= tellsOfDifference(line);
        copies.push(...[copyToldOf(line)].filter((copy) => copy !== undefined));
      },
    );
    return { ...rows, isDifferent, copies };
  }

  /** The rows of a report about one thing. @throws CommandError */
  async rows(args: readonly string[]): Promise<ReportRow[]> {
    const rows: ReportRow[] = [];
    await this.#read(args, (_section, row) => rows.push(row));
    return rows;
  }

  /** A row is one line, as long as all tags of a logical volume together, also foreign ones: so it is not read by lines. */
  async #read(
    args: readonly string[],
    onRow: (section: string, row: ReportRow) => void,
    onWarning: (line: string) => void = () => undefined,
  ): Promise<void> {
    const reader = new ReportReader(onRow);
    const { before, environment, program } = this.runner;
    const words = [...before, ...this.#command(args)];
    const onText = (text: string) => reader.read(text);
    const onLine = (line: string, from: 'stdout' | 'stderr') => {
      if (from === 'stderr') onWarning(line);
    };
    await this.#alone(args, () => run(program, words, { environment, keep: 'end', onLine, onText }));
    if (!reader.isWhole) throw new DataLoss('the report of lvm ended in the middle: nothing was done.');
  }

  #alone<T>([command = '']: readonly string[], work: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      const timer = setTimeout(() => this.whenSlow(command), this.#slowAfterMs).unref();
      try {
        return await work();
      } finally {
        clearTimeout(timer);
      }
    });
  }

  #command([command = '', ...rest]: readonly string[]): string[] {
    const hasUdev = this.runner.environment['DM_DISABLE_UDEV'] === undefined;
    const config = configFor(command, {
      ...{ hasUdev, hasThinPool: this.#hasThinPool },
      lockDirectory: this.runner.lockDirectory,
    });
    const devices = this.#devicePaths?.flatMap((path) => ['--devices', path]) ?? [];
    return [command, '--config', config, ...devices, ...rest];
  }
}

export function isLvmError(error: unknown): error is CommandError {
  return error instanceof CommandError;
}
