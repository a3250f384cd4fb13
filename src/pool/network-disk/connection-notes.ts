import { createHash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { DirectorySync, readIfThere } from '../../kernel/file/file.ts';
import { bootId } from '../../kernel/process/boot-id.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { type StepName, step } from '../../volume/step.ts';
import { indented } from '../../volume/stored-json.ts';
import { replaceFile } from '../records/durable-file.ts';

/** This driver's use of a target on this node. @typeParam C a connection that it makes, or has made */
export interface ConnectionNote<C> {
  /** Handles of the volumes that are attached, or are about to be. */
  readonly users: readonly string[];
  /** Only those of this driver: others are never ended. */
  readonly connections: readonly C[];
  /** By handle, for kinds whose contexts need not name it: the identity that the volume's device had. */
  readonly identities?: Readonly<Record<string, string>> | undefined;
}

/** The form in which a kind stores its notes. */
export interface NoteFormat<C> {
  /** The key with the target's name. */
  readonly targetKey: 'nqn' | 'iqn' | 'disk';
  readonly schema: z.ZodType<StoredNote<C>>;
  readonly step: StepName;
}

/** The fields of all kinds, for the schema of one. */
export const noteFields = {
  format: z.literal(1),
  /** Connections end with the boot. */
  boot: z.string(),
  users: z.array(z.string()),
} as const;

interface StoredNote<C> {
  readonly boot: string;
  readonly users: readonly string[];
  readonly connections: readonly C[];
  readonly identities?: Readonly<Record<string, string>> | undefined;
}

const nothing = { users: [], connections: [] } as const;

/**
 * The note on a target, in the driver's own directory: durable before a connection is made. So a driver that starts
 * after a crash knows which connections are its own. Kept in memory, too: it is read while a server hangs.
 */
export class ConnectionNotes<C> {
  readonly #directory: string;
  readonly #path: string;
  readonly #target: string;
  readonly #boot: string;
  readonly #format: NoteFormat<C>;
  readonly #syncs = new DirectorySync();
  #note: ConnectionNote<C> = nothing;

  private constructor(directory: string, target: string, format: NoteFormat<C>) {
    const name = createHash('sha256').update(target).digest('hex').slice(0, 32);
    this.#directory = directory;
    this.#path = join(directory, `${name}.json`);
    this.#target = target;
    this.#boot = bootId();
    this.#format = format;
  }

  static async open<C>(
    queue: DiskQueue,
    directory: string,
    target: string,
    format: NoteFormat<C>,
  ): Promise<ConnectionNotes<C>> {
    const notes = new ConnectionNotes<C>(directory, target, format);
    const text = await readIfThere(queue, notes.#path);
    if (text !== undefined) notes.#note = parseNote(format, text, notes.#boot);
    return notes;
  }

  get note(): ConnectionNote<C> {
    return this.#note;
  }

  async write(queue: DiskQueue, note: ConnectionNote<C>): Promise<void> {
    await queue.run(() => mkdir(this.#directory, { recursive: true, mode: 0o700 }));
    const text = serializeNote(this.#format, this.#target, this.#boot, note);
    await step(this.#format.step, () => replaceFile(queue, this.#syncs, this.#path, text));
    this.#note = note;
  }

  /** Nothing of this driver is connected any more. */
  async remove(queue: DiskQueue): Promise<void> {
    await queue.run(() => rm(this.#path, { force: true }));
    this.#note = nothing;
  }
}

export function serializeNote<C>(
  { targetKey }: Pick<NoteFormat<C>, 'targetKey'>,
  target: string,
  boot: string,
  { connections, identities, users }: ConnectionNote<C>,
): string {
  return indented({ format: 1, [targetKey]: target, boot, users, connections, identities });
}

/** One that cannot be read names no connection: then they stay, so that no connection of another program is ended. */
export function parseNote<C>({ schema }: Pick<NoteFormat<C>, 'schema'>, text: string, boot: string): ConnectionNote<C> {
  const parsed = parseJsonInput(schema, text);
  if ('mistakes' in parsed || parsed.data.boot !== boot) return nothing;
  const { connections, identities, users } = parsed.data;
  return { users, connections, ...(identities && { identities }) };
}
