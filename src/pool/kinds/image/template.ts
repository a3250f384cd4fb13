import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { unlink } from 'node:fs/promises';
import type { FormatRequest } from '../../../command/mkfs.ts';
import { mountBriefly, withDevice } from '../../../filesystems/brief-mount.ts';
import { renewalOf } from '../../../filesystems/identity.ts';
import { type Renewal, writePieces } from '../../../filesystems/renewal.ts';
import { type Descriptor, openFile, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { createFile, readAt, resizeFile, writeAt } from '../../../kernel/file/file.ts';
import { reflinkWhole } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type ByteRange, copyRange, nextData, punchHole } from '../../../kernel/file/sparse.ts';
import type { Layout } from '../../records/layout.ts';

/** Each is kept in memory. */
const maxSuperblocks = 64;
/** One with more is not copied: each piece is a call. */
const maxPieces = 128;
const maxCopiedBytes = 64n << 20n;
/** The number of bytes in memory at a time where the driver copies. */
const chunkBytes = 256 << 10;

/** The request for a new filesystem. */
export type TemplateRequest = Omit<FormatRequest, 'path'>;

/** A filesystem just made. */
export interface Template {
  readonly path: string;
  readonly sizeBytes: bigint;
  /** The writes that give a new volume its own UUID. */
  readonly renewal: Renewal;
  /** Where its data is; all else reads as zeros. undefined: it is too much to be copied. */
  readonly pieces: readonly ByteRange[] | undefined;
  /** The file from which new volumes are cloned. undefined: files do not share blocks here. */
  readonly seed: Descriptor | undefined;
}

/** The way from a template to an image: it shares the blocks, or gets its own. */
export type Filling = 'share' | 'copy';

export interface TemplatePlace {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  /** Files share blocks here, or are copied. */
  readonly cloning: 'reflink' | 'copy';
}

/** It was removed by hand, or is not what it was. */
export class TemplateGone extends Error {}

/**
 * Reads the needed parts, and tries it: a volume is made from it in the same way as later ones, and mounted once, where it is
 * not visible.
 */
export async function inspectTemplate(place: TemplatePlace, path: string, request: TemplateRequest): Promise<Template> {
  const { cloning, queue } = place;
  const renewal = await renewalOf(queue, { ...request, path });
  if (renewal === undefined) throw new Error('its UUID cannot be changed by writing');
  if (renewal(newUuid()).length > maxSuperblocks) throw new Error('it has too many superblocks');
  const pieces = await findData(queue, path);
  const seed = cloning === 'reflink' ? await makeSeed(place, path, renewal) : undefined;
  try {
    const template = { path, sizeBytes: request.sizeBytes, renewal, pieces, seed };
    await tryOut(place, template, request);
    return template;
  } catch (error) {
    seed?.closeLater();
    throw error;
  }
}

/**
 * A clone of it without a name, that has holes in the places where each volume must have its own content. XFS puts a write to
 * shared blocks elsewhere, takes 31 more blocks in advance, and has to undo both later: in a hole it does nothing of
 * that.
 */
async function makeSeed({ layout, queue }: TemplatePlace, path: string, renewal: Renewal): Promise<Descriptor> {
  const draft = layout.newTemplateDraft();
  const seed = await openFile(queue, draft, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    await using template = await openReadOnly(queue, path);
    await reflinkWhole(queue, template, seed);
    for (const { bytes, offsetBytes } of renewal(newUuid())) {
      await punchHole(queue, seed, { offsetBytes, lengthBytes: BigInt(bytes.length) });
    }
    return seed;
  } catch (error) {
    seed.closeLater();
    throw error;
  } finally {
    await queue.run(() => unlink(draft)).catch(ignoreMissing);
  }
}

async function tryOut(place: TemplatePlace, template: Template, request: TemplateRequest): Promise<void> {
  const { cloning, layout, queue } = place;
  const draft = layout.newTemplateDraft();
  try {
    {
      await using image = await createFile(queue, draft);
      await fillFrom(place, template, image, cloning === 'reflink' ? 'share' : 'copy');
    }
    const image = { ...request, path: draft };
    await withDevice(queue, image, (device) => mountBriefly(queue, request.fsType, device));
  } finally {
    await queue.run(() => unlink(draft)).catch(ignoreMissing);
  }
}

/** Makes a filesystem like this in a new image, with its own UUID. Not durable. */
export async function fillFrom(
  place: TemplatePlace,
  template: Template,
  image: Descriptor,
  filling: Filling,
): Promise<void> {
  await pour(place, template, image, filling);
  await writePieces(place.queue, image, template.renewal(newUuid()));
}

async function pour(place: TemplatePlace, template: Template, image: Descriptor, filling: Filling): Promise<void> {
  const { path, seed, sizeBytes } = template;
  const { queue } = place;
  // A user that removes or spoils it by hand wants no more volumes of it.
  const status = await statusOf(queue, path).catch(ignoreMissing);
  if (status === undefined) throw new TemplateGone('it is missing');
  if (status.sizeBytes !== sizeBytes) throw new TemplateGone('it has another size');
  if (filling === 'share' && seed !== undefined) await reflinkWhole(queue, seed, image);
  else await copy(place, template, image);
}

/** A thick image has its blocks already. */
async function copy(
  { cloning, queue }: TemplatePlace,
  { path, pieces, sizeBytes }: Template,
  image: Descriptor,
): Promise<void> {
  if (pieces === undefined) throw new TemplateGone('it is too large to be copied');
  const from = await openReadOnly(queue, path);
  try {
    await resizeFile(queue, image, sizeBytes);
    if (cloning === 'copy') await Promise.all(pieces.map((piece) => copyRange(queue, from, image, piece)));
    // The kernel would make these share their blocks.
    else for (const piece of pieces) await rewrite(queue, from, image, piece);
  } finally {
    from.closeLater();
  }
}

async function rewrite(queue: DiskQueue, from: Descriptor, image: Descriptor, piece: ByteRange): Promise<void> {
  const end = Number(piece.offsetBytes + piece.lengthBytes);
  for (let offsetBytes = Number(piece.offsetBytes); offsetBytes < end; offsetBytes += chunkBytes) {
    const lengthBytes = Math.min(chunkBytes, end - offsetBytes);
    await writeAt(queue, image, await readAt(queue, from, { offsetBytes, lengthBytes }), BigInt(offsetBytes));
  }
}

async function findData(queue: DiskQueue, path: string): Promise<readonly ByteRange[] | undefined> {
  await using template = await openReadOnly(queue, path);
  const pieces: ByteRange[] = [];
  let copiedBytes = 0n;
  for (let offsetBytes = 0n; ; ) {
    const piece = await nextData(queue, template, offsetBytes);
    if (piece === undefined) return pieces;
    pieces.push(piece);
    copiedBytes += piece.lengthBytes;
    if (pieces.length > maxPieces || copiedBytes > maxCopiedBytes) return undefined;
    offsetBytes = piece.offsetBytes + piece.lengthBytes;
  }
}

function newUuid(): Buffer {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}

/** The open files from which new volumes are cloned, by the name of the template. */
export class Seeds {
  readonly #held = new Map<string, Descriptor>();

  hold(name: string, seed: Descriptor): void {
    this.#held.get(name)?.closeLater();
    this.#held.set(name, seed);
  }

  /** When this is done, blocks that only one other file shared with it are that file's alone. */
  async release(name: string): Promise<void> {
    const seed = this.#held.get(name);
    this.#held.delete(name);
    await seed?.[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((name) => this.release(name)));
  }
}
