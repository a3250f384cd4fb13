import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, unlink } from 'node:fs/promises';
import { format, mkfsCommand } from '../../../command/mkfs.ts';
import { fingerprintOf } from '../../../command/tools.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno, KernelError } from '../../../kernel/call/errno.ts';
import { createFile, resizeFile, syncFile } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { larger } from '../../../volume/size.ts';
import { step } from '../../../volume/step.ts';
import type { TemplateSpace } from '../../backend.ts';
import type { PoolLog } from '../../log.ts';
import type { Layout } from '../../records/layout.ts';
import { Demand } from './demand.ts';
import {
  type Filling,
  fillFrom,
  inspectTemplate,
  Seeds,
  type Template,
  TemplateGone,
  type TemplatePlace,
  type TemplateRequest,
} from './template.ts';
import { punchUnwritten } from './thickness.ts';

/** Limits of the stored templates, in number and in total size: the ones requested most of late stay. */
const maxTemplates = 16;
const maxBytes = 256n << 20n;
/** A filesystem that takes more when it is new is made each time. */
const maxBytesOfOne = 64n << 20n;
/** The space that is reserved while one is made: mkfs takes more than is left in the end. */
const neededBytes = 192n << 20n;

/** Limit of the set: a question about a fresh volume comes soon after it was made. */
const maxFresh = 1000;

/** mkfs is not exchanged often, and what could not be made is not tried at each call. */
const rememberedMs = 60_000;

/** The reason why there is no template. The next call tries again, except for `impossible`: that holds for a while. */
type Obstacle = 'no room' | 'little demand' | 'impossible';

interface Stored {
  readonly takenBytes: bigint;
  /** The larger the later. */
  lastUse: number;
}

export interface TemplatesOptions extends TemplatePlace {
  readonly formatQueue: DiskQueue;
  readonly log: PoolLog;
  readonly name: string;
}

/**
 * Filesystems just made, from which new volumes are made: sharing blocks takes a tenth of the time that mkfs takes, copying
 * the blocks that are not zero a fifth. One is made when it is first needed, for each size and set of options. Once the
 * limit is reached, one gives way only to another that is requested more often. They can be removed at any time: a volume
 * made from one does not need it.
 */
export class Templates implements TemplateSpace {
  readonly #options: TemplatesOptions;
  /** By name. */
  readonly #ready = new Map<string, Promise<Template | Obstacle>>();
  /** The templates in the pool. */
  readonly #stored = new Map<string, Stored>();
  readonly #seeds = new Seeds();
  readonly #demand = new Demand();
  readonly #tools = new Map<FilesystemType, { readonly fingerprint: Promise<string>; readonly sinceMs: number }>();
  #uses = 0;
  /** Volumes that were made from one, and for which no question has come yet. */
  readonly #fresh = new Set<VolumeId>();
  hold: TemplateSpace['hold'] = async () => undefined;
  wereThere = false;

  private constructor(options: TemplatesOptions) {
    this.#options = options;
  }

  /** Learns what the last driver has left. */
  static async open(options: TemplatesOptions): Promise<Templates> {
    const templates = new Templates(options);
    const found = await readTemplates(options.queue, options.layout);
    templates.wereThere = found !== undefined;
    for (const [name, takenBytes] of found ?? []) templates.#store(name, takenBytes);
    return templates;
  }

  get takenBytes(): bigint {
    return [...this.#stored.values()].reduce((sum, { takenBytes }) => sum + takenBytes, 0n);
  }

  /**
   * Makes a filesystem in a new image, from a template. Not durable. Where files share blocks, an image that must have its
   * own blocks is copied anyway.
   * @returns false if there is none: then it has to be formatted, and its blocks may be gone
   */
  async fill(id: VolumeId, request: TemplateRequest, image: Descriptor, filling: Filling): Promise<boolean> {
    const { queue } = this.#options;
    const name = await this.#nameOf(request);
    this.#demand.note(name);
    const template = await this.#obtain(name, request);
    if (typeof template === 'string' || (filling === 'copy' && template.pieces === undefined)) return false;
    try {
      await fillFrom(this.#options, template, image, filling);
    } catch (error) {
      // Copying takes space. The lack of it says nothing about the template.
      const isFull = filling === 'copy' && isErrno(error, 'ENOSPC', 'EDQUOT');
      const isBad = error instanceof TemplateGone || error instanceof KernelError;
      if (isFull || !isBad || queue.closedFor !== undefined) throw error;
      await this.#giveUp(name, error);
      // There may be a part of it.
      await resizeFile(queue, image, 0n);
      return false;
    }
    const stored = this.#stored.get(name);
    if (stored !== undefined) stored.lastUse = ++this.#uses;
    if (filling === 'share') {
      // No question ever comes for volumes whose creation failed later.
      const [oldest] = this.#fresh;
      if (this.#fresh.size >= maxFresh && oldest !== undefined) this.#fresh.delete(oldest);
      this.#fresh.add(id);
    }
    return true;
  }

  takeFresh(id: VolumeId): boolean {
    return this.#fresh.delete(id);
  }

  async clear(): Promise<boolean> {
    const names = [...this.#stored.keys()];
    for (const name of names) await this.#remove(name);
    return names.length > 0;
  }

  /** Closes the seeds. */
  close(): Promise<void> {
    return this.#seeds.close();
  }

  /** One caller makes it, all others wait. */
  #obtain(name: string, request: TemplateRequest): Promise<Template | Obstacle> {
    const known = this.#ready.get(name);
    if (known !== undefined) return known;
    const made = this.#tryToMake(name, request);
    this.#ready.set(name, made);
    const forget = () => {
      if (this.#ready.get(name) === made) this.#ready.delete(name);
    };
    void made.then((template) => {
      if (template === 'impossible') setTimeout(forget, rememberedMs).unref();
      else if (typeof template === 'string') forget();
    });
    return made;
  }

  /** The reason for a failure does not matter to the caller: it will see the errors of mkfs itself. */
  async #tryToMake(name: string, request: TemplateRequest): Promise<Template | Obstacle> {
    const { log, name: pool } = this.#options;
    try {
      const found = await this.#find(name, request);
      if (found === undefined && this.#isFull() && !this.#demand.isWorthExchange(name, this.#stored.keys())) {
        return 'little demand';
      }
      const template = found ?? (await this.#make(name, request));
      if (typeof template === 'string' || template.seed === undefined) return template;
      this.#seeds.hold(name, template.seed);
      // It may have been removed meanwhile.
      if (!this.#stored.has(name)) await this.#seeds.release(name);
      return template;
    } catch (error) {
      log.warn({ pool, template: name, err: error }, 'no template could be made; new volumes are formatted one by one');
      return 'impossible';
    }
  }

  /** One that the last driver has left. Mounted once more: the kernel may be another one, and the disk have had its time. */
  async #find(name: string, request: TemplateRequest): Promise<Template | undefined> {
    if (!this.#stored.has(name)) return undefined;
    try {
      return await inspectTemplate(this.#options, this.#options.layout.template(name), request);
    } catch (error) {
      await this.#giveUp(name, error);
      return undefined;
    }
  }

  async #giveUp(name: string, error: unknown): Promise<void> {
    const { log, name: pool } = this.#options;
    log.warn({ pool, template: name, err: error }, 'a template is of no use any more, and is made again');
    await this.#remove(name);
  }

  async #make(name: string, request: TemplateRequest): Promise<Template | Obstacle> {
    const { formatQueue, layout, queue } = this.#options;
    using held = await this.hold(neededBytes);
    if (held === undefined) return 'no room';
    const draft = layout.newTemplateDraft();
    try {
      await step('template/format', async () => {
        await using image = await createFile(queue, draft);
        await resizeFile(queue, image, request.sizeBytes);
        await formatQueue.run(() => format({ ...request, path: draft, isZeroed: true }));
        await punchUnwritten(queue, draft);
      });
      const { allocatedBytes } = await statusOf(queue, draft);
      if (allocatedBytes > maxBytesOfOne) return 'impossible';
      const template = await step('template/check', () => inspectTemplate(this.#options, draft, request));
      try {
        await step('template/commit', async () => {
          await syncFile(queue, draft);
          await queue.run(() => mkdir(layout.templates, { recursive: true, mode: 0o700 }));
          await queue.run(() => rename(draft, layout.template(name)));
        });
      } catch (error) {
        template.seed?.closeLater();
        throw error;
      }
      this.#store(name, allocatedBytes);
      await this.#keepFew();
      return { ...template, path: layout.template(name) };
    } finally {
      await queue.run(() => unlink(draft)).catch(ignoreMissing);
    }
  }

  #store(name: string, takenBytes: bigint): void {
    this.#stored.set(name, { takenBytes, lastUse: ++this.#uses });
    this.wereThere = true;
  }

  /** True if another template, as large as the largest, would cost one of those that are there. */
  #isFull(): boolean {
    const largest = [...this.#stored.values()].reduce((max, { takenBytes }) => larger(max, takenBytes), 0n);
    return this.#stored.size >= maxTemplates || this.takenBytes + largest > maxBytes;
  }

  async #keepFew(): Promise<void> {
    while (this.#stored.size > maxTemplates || this.takenBytes > maxBytes) {
      const [rarest] = [...this.#stored].sort(
        ([name, a], [other, b]) => this.#demand.of(name) - this.#demand.of(other) || a.lastUse - b.lastUse,
      );
      if (rarest === undefined) return;
      await this.#remove(rarest[0]);
    }
  }

  async #remove(name: string): Promise<void> {
    const { layout, queue } = this.#options;
    this.#forget(name);
    await step('template/remove', () => queue.run(() => unlink(layout.template(name)))).catch(ignoreMissing);
    await this.#seeds.release(name);
  }

  #forget(name: string): void {
    this.#stored.delete(name);
    this.#ready.delete(name);
  }

  /** Says all that its content depends on. */
  async #nameOf(request: TemplateRequest): Promise<string> {
    const { blockSizeBytes, fsType, sizeBytes } = request;
    const { args } = mkfsCommand({ ...request, path: '' });
    return `${fsType}-${await this.#fingerprint(fsType)}-${sizeBytes}-${digest(JSON.stringify([blockSizeBytes, args]))}`;
  }

  /** The current version of mkfs. Templates that another version has made are removed. */
  async #fingerprint(fsType: FilesystemType): Promise<string> {
    const nowMs = performance.now();
    const known = this.#tools.get(fsType);
    if (known !== undefined && nowMs - known.sinceMs < rememberedMs) return known.fingerprint;
    const fingerprint = fingerprintOf(`mkfs.${fsType}`).then(digest);
    this.#tools.set(fsType, { fingerprint, sinceMs: nowMs });
    const current = `${fsType}-${await fingerprint}-`;
    for (const name of this.#stored.keys()) {
      if (name.startsWith(`${fsType}-`) && !name.startsWith(current)) await this.#remove(name);
    }
    return fingerprint;
  }
}

/** The space that each template takes, by its name. @returns undefined if there never were any in this pool */
export async function readTemplates(queue: DiskQueue, layout: Layout): Promise<Map<string, bigint> | undefined> {
  const names = await queue.run(() => readdir(layout.templates)).catch(ignoreMissing);
  if (names === undefined) return undefined;
  const found = new Map<string, bigint>();
  for (const name of names) found.set(name, (await statusOf(queue, layout.template(name))).allocatedBytes);
  return found;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
