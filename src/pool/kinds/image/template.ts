import { randomUUID } from 'node:crypto';
import { unlink } from 'node:fs/promises';
import type { FormatRequest } from '../../../command/mkfs.ts';
import { type Descriptor, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { createFile, readAt, resizeFile, writeAt } from '../../../kernel/file/file.ts';
import { reflinkWhole } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type ByteRange, copyRange, nextData } from '../../../kernel/file/sparse.ts';
import { mountBriefly, withDevice } from '../../filesystem/brief-mount.ts';
import { giveNewIdentity, renewalOf } from '../../filesystem/identity.ts';
import { type Renewal, writePieces } from '../../filesystem/renewal.ts';
import type { Layout } from '../../records/layout.ts';

/** Each is kept in memory. */
const mostSuperblocks = 64;
/** One with more is not copied: each piece is a call. */
const mostPieces = 128;
const mostCopiedBytes = 64n << 20n;
/** So much is in memory at a time where the driver copies by itself. */
const chunkBytes = 256 << 10;

/** What a new filesystem is asked for with. */
export type TemplateRequest = Omit<FormatRequest, 'path'>;

/** A filesystem just made. */
export interface Template {
  readonly path: string;
  readonly sizeBytes: bigint;
  /** For each new volume: what gives it a UUID of its own. */
  readonly renewal: Renewal;
  /** Where its data is; all else reads as zeros. undefined: it is too much to be copied. */
  readonly pieces: readonly ByteRange[] | undefined;
}

/** How an image gets what is in a template: it shares the blocks, or has blocks of its own. */
export type Filling = 'share' | 'copy';

export interface TemplatePlace {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  /** Whether files share blocks here. */
  readonly cloning: 'reflink' | 'copy';
}

/** It was removed by hand, or is not what it was. */
export class TemplateGone extends Error {}

/**
 * Reads what is needed of it, and tries it: a volume is made of it as others will be, and mounted once, where nobody can
 * see it.
 */
export async function inspectTemplate(place: TemplatePlace, path: string, request: TemplateRequest): Promise<Template> {
  const { cloning, layout, queue } = place;
  const renewal = await renewalOf(queue, { ...request, path });
  if (renewal === undefined) throw new Error('its UUID cannot be changed by writing');
  if (renewal(newUuid()).length > mostSuperblocks) throw new Error('it has too many superblocks');
  const template = { path, sizeBytes: request.sizeBytes, renewal, pieces: await findData(queue, path) };
  const draft = layout.newTemplateDraft();
  try {
    {
      await using image = await createFile(queue, draft);
      await pour(place, template, image, cloning === 'reflink' ? 'share' : 'copy');
    }
    const image = { ...request, path: draft };
    await giveNewIdentity(queue, image);
    await withDevice(queue, image, (device) => mountBriefly(queue, request.fsType, device));
  } finally {
    await queue.run(() => unlink(draft)).catch(ignoreMissing);
  }
  return template;
}

/** Makes a new image a filesystem like this, with a UUID of its own. Not durable. */
export async function fillFrom(
  place: TemplatePlace,
  template: Template,
  image: Descriptor,
  filling: Filling,
): Promise<void> {
  await pour(place, template, image, filling);
  await writePieces(place.queue, image, template.renewal(newUuid()));
}

/** A thick image has its blocks already. */
async function pour(
  { cloning, queue }: TemplatePlace,
  { path, pieces, sizeBytes }: Template,
  image: Descriptor,
  filling: Filling,
): Promise<void> {
  const from = await openReadOnly(queue, path).catch(ignoreMissing);
  if (from === undefined) throw new TemplateGone('it is missing');
  try {
    if ((await statusOf(queue, from)).sizeBytes !== sizeBytes) throw new TemplateGone('it has another size');
    if (filling === 'share') return await reflinkWhole(queue, from, image);
    if (pieces === undefined) throw new TemplateGone('it is too large to be copied');
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
    if (pieces.length > mostPieces || copiedBytes > mostCopiedBytes) return undefined;
    offsetBytes = piece.offsetBytes + piece.lengthBytes;
  }
}

function newUuid(): Buffer {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}
