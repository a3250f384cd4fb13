import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { writeProject } from '../../../kernel/file/project-id.ts';
import type { ProjectQuota, ProjectUsage } from '../../../kernel/file/project-quota.ts';
import { writeProjectOfTree } from '../../../kernel/file/project-tree.ts';
import { ResourceExhausted } from '../../../volume/errors.ts';
import type { CommitOrder } from '../../records/commit-order.ts';
import type { Layout } from '../../records/layout.ts';

/** Lies beside a volume's data, and says which project that is: a number in decimal. */
export const projectFileName = 'project';

/** The kubelet counts from 1048577 up, others from 1. */
const firstProject = 1_200_000_000;
const projectCount = 1 << 24;

const noLimits = { bytes: 0n, inodes: 0n };

export interface ProjectsOptions {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly order: CommitOrder;
  readonly quota: ProjectQuota;
  readonly poolName: string;
  readonly poolId: string;
}

/**
 * The quota projects of a pool's volumes: one for each, noted durably before it is used, and used for nothing else: a
 * project without a note of ours is taken only if the filesystem counts nothing for it.
 */
export class Projects {
  readonly #options: ProjectsOptions;
  readonly #taken: Set<number>;
  #next: number;

  private constructor(options: ProjectsOptions, taken: Set<number>) {
    this.#options = options;
    this.#taken = taken;
    // Two pools on one filesystem begin at different places, so that they do not look at the same one at a time.
    this.#next = Number.parseInt(options.poolId.slice(0, 6), 16) % projectCount;
  }

  /** Reads all notes, also those of half made or half removed volumes and snapshots. */
  static async read(options: ProjectsOptions): Promise<Projects> {
    const { layout, queue } = options;
    const taken = new Set<number>();
    for (const directory of [layout.volumes, layout.snapshots, layout.trash, layout.drafts]) {
      const names = await queue.run(() => readdir(directory));
      const ids = await Promise.all(names.map((name) => readNote(queue, join(directory, name))));
      for (const id of ids) if (id !== undefined) taken.add(id);
    }
    return new Projects(options, taken);
  }

  /** The project of the volume or snapshot in this directory; undefined: it was made without quota. */
  of(directory: string): Promise<number | undefined> {
    return readNote(this.#options.queue, directory);
  }

  /** The usage and the limit of the data in a directory; undefined: it was made without quota. */
  async usageIn(directory: string): Promise<ProjectUsage | undefined> {
    const id = await this.of(directory);
    if (id === undefined) return undefined;
    return (await this.#options.quota.find(id)) ?? { id, usedBytes: 0n, usedInodes: 0n, limits: noLimits };
  }

  /** Gives the data in a draft's directory its own project. The note is durable with the directory. */
  async assign(directory: string, sizeBytes: bigint): Promise<void> {
    const { queue } = this.#options;
    const id = await this.reserve(directory);
    await this.#limit(id, sizeBytes);
    await using data = await openReadOnly(queue, join(directory, 'data'));
    await writeProject(queue, data, { id, isInherited: true });
  }

  /** Notes a project, without a limit, for data that will be put into the directory. */
  async reserve(directory: string): Promise<number> {
    const id = await this.#allocate();
    try {
      await this.#options.order.newFile(join(directory, projectFileName), `${id}\n`);
    } catch (error) {
      this.#taken.delete(id);
      throw error;
    }
    return id;
  }

  /** Puts the data in a directory, with all that lies in it, into the project that is noted for it, if one is. */
  async take(directory: string, signal: AbortSignal): Promise<void> {
    const id = await this.of(directory);
    if (id !== undefined) await this.#putTree(directory, id, signal);
  }

  /** Takes the data out of its project. Data without a noted project is left as it is. */
  async leave(directory: string): Promise<void> {
    if ((await this.of(directory)) !== undefined) await this.#putTree(directory, 0);
  }

  /** Sets how much the data in a directory may take, if that is limited at all. */
  async limitIn(directory: string, sizeBytes: bigint): Promise<void> {
    const id = await this.of(directory);
    if (id !== undefined) await this.#limit(id, sizeBytes);
  }

  /** Nothing of ours has the project any more but the note of it, which goes next. */
  async release(directory: string): Promise<void> {
    const id = await this.of(directory);
    if (id === undefined) return;
    await this.#options.quota.limit(id, noLimits);
    this.#taken.delete(id);
  }

  async #putTree(directory: string, id: number, signal?: AbortSignal): Promise<void> {
    const { queue } = this.#options;
    await using data = await openReadOnly(queue, join(directory, 'data'));
    await writeProjectOfTree(queue, data, id, signal);
  }

  async #limit(id: number, sizeBytes: bigint): Promise<void> {
    await this.#options.quota.limit(id, { bytes: sizeBytes, inodes: 0n });
  }

  async #allocate(): Promise<number> {
    for (let tries = 0; tries < projectCount; tries++) {
      const id = firstProject + this.#next;
      this.#next = (this.#next + 1) % projectCount;
      if (this.#taken.has(id)) continue;
      this.#taken.add(id);
      if ((await this.#options.quota.find(id)) === undefined) return id;
      this.#taken.delete(id);
    }
    throw new ResourceExhausted(
      `pool ${this.#options.poolName}: all quota projects from ${firstProject} on are in use on its filesystem.`,
    );
  }
}

async function readNote(queue: DiskQueue, directory: string): Promise<number | undefined> {
  try {
    const text = await queue.run(() => readFile(join(directory, projectFileName), 'utf8'));
    const id = Number(text);
    return Number.isInteger(id) && id >= firstProject && id < firstProject + projectCount ? id : undefined;
  } catch (error) {
    // No quota then, or no directory: something else lies there, or it is gone.
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}
