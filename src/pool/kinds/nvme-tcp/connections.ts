import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { NvmeController } from '../../../kernel/block/nvme.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { parseJsonInput } from '../../../volume/parse-input.ts';
import { step } from '../../../volume/step.ts';
import { replaceFile } from '../../records/durable-file.ts';

/** A connection that this driver makes, or has made. */
export interface Connection {
  readonly traddr: string;
  readonly trsvcid: string;
  readonly hostNqn: string;
  /** The name of its controller, `nvme3`; undefined: it may not be made yet. */
  readonly controller?: string | undefined;
}

/** This driver's use of a subsystem on this node. */
export interface SubsystemNote {
  /** Handles of the volumes that are attached, or are about to be. */
  readonly users: readonly string[];
  /** Only those of this driver: others are never ended. */
  readonly connections: readonly Connection[];
}

const storedNote = z.strictObject({
  format: z.literal(1),
  nqn: z.string(),
  /** Connections end with the boot. */
  boot: z.string(),
  users: z.array(z.string()),
  connections: z.array(
    z.strictObject({
      traddr: z.string(),
      trsvcid: z.string(),
      hostNqn: z.string(),
      controller: z.string().optional(),
    }),
  ),
});

const nothing: SubsystemNote = { users: [], connections: [] };

/** Answers if a controller is this connection, made by any program: the kernel makes none twice. */
export function isSamePath(connection: Connection, controller: NvmeController): boolean {
  return (
    controller.transport === 'tcp' &&
    controller.address.get('traddr') === connection.traddr &&
    controller.address.get('trsvcid') === connection.trsvcid &&
    controller.hostNqn === connection.hostNqn
  );
}

/** Answers if this driver has made a controller. One with another name was made later by another program. */
export function isOurs({ connections }: Pick<SubsystemNote, 'connections'>, controller: NvmeController): boolean {
  return connections.some(
    (each) => isSamePath(each, controller) && (each.controller ?? controller.name) === controller.name,
  );
}

/**
 * The note on a subsystem, in the driver's own directory: durable before a connection is made. So a driver that starts
 * after a crash knows which connections are its own. Kept in memory, too: it is read while a server hangs.
 */
export class SubsystemNotes {
  readonly #directory: string;
  readonly #path: string;
  readonly #nqn: string;
  readonly #boot: string;
  readonly #syncs = new DirectorySync();
  #note: SubsystemNote;

  private constructor(directory: string, path: string, nqn: string, boot: string, note: SubsystemNote) {
    this.#directory = directory;
    this.#path = path;
    this.#nqn = nqn;
    this.#boot = boot;
    this.#note = note;
  }

  static async open(queue: DiskQueue, directory: string, nqn: string): Promise<SubsystemNotes> {
    const name = createHash('sha256').update(nqn).digest('hex').slice(0, 32);
    const path = join(directory, `${name}.json`);
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const text = await queue.run(() => readFile(path, 'utf8')).catch(ignoreMissing);
    return new SubsystemNotes(directory, path, nqn, boot, text === undefined ? nothing : parseNote(text, boot));
  }

  get note(): SubsystemNote {
    return this.#note;
  }

  async write(queue: DiskQueue, note: SubsystemNote): Promise<void> {
    await queue.run(() => mkdir(this.#directory, { recursive: true, mode: 0o700 }));
    const text = serializeNote(this.#nqn, this.#boot, note);
    await step('nvme/note', () => replaceFile(queue, this.#syncs, this.#path, text));
    this.#note = note;
  }

  /** Nothing of this driver is connected any more. */
  async remove(queue: DiskQueue): Promise<void> {
    await queue.run(() => rm(this.#path, { force: true }));
    this.#note = nothing;
  }
}

export function serializeNote(nqn: string, boot: string, { connections, users }: SubsystemNote): string {
  const stored: z.input<typeof storedNote> = {
    ...{ format: 1, nqn, boot, users: [...users] },
    connections: connections.map((each) => ({ ...each })),
  };
  return `${JSON.stringify(stored, null, 2)}\n`;
}

/** One that cannot be read names no connection: then they stay, so that no connection of another program is ended. */
export function parseNote(text: string, boot: string): SubsystemNote {
  const parsed = parseJsonInput(storedNote, text);
  if ('mistakes' in parsed || parsed.data.boot !== boot) return nothing;
  const { connections, users } = parsed.data;
  return { users, connections };
}
