import { z } from 'zod';
import { kindOf, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { type CopyMark, unmarked } from '../../volume/move/rule.ts';
import { parseStored } from '../../volume/stored-json.ts';

/** A mark on disk. Drivers that know of no moves leave it alone where it is a file. */
const storedMark = z.strictObject({
  format: z.literal(1),
  generation: z.int().nonnegative(),
  fence: z
    .strictObject({
      moveId: z.string(),
      fenceId: z.string(),
      isGiven: z.boolean(),
      to: z.string().optional(),
      by: z.string().optional(),
    })
    .optional(),
});

/** The notes of all moves begin with their id, so that the data of one never passes for that of another. */
export function isOfMove(note: string, moveId: string): boolean {
  return note.startsWith(`${moveId}\n`);
}

export function serializeMark(mark: CopyMark): string {
  return JSON.stringify({ format: 1, ...mark });
}

/** @throws DataLoss if the text is no mark of a known format: then the copy cannot be used */
export function parseMark(text: string, where: string): CopyMark {
  const { fence, generation } = parseStored(storedMark, text, where);
  return { generation, ...(fence !== undefined && { fence }) };
}

export function markIn(text: string | undefined, id: SnapshotId | VolumeId): CopyMark {
  return text === undefined ? unmarked : parseMark(text, `of the move of ${kindOf(id)} ${id}`);
}
