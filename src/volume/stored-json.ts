import { z } from 'zod';
import { accessModes } from './capability.ts';
import { DataLoss } from './errors.ts';
import { filesystemTypes } from './filesystem.ts';
import { parseSnapshotId } from './id.ts';
import { inOneSentence, parseJsonInput } from './parse-input.ts';

/** Schemas that all records on disk share. Sizes are decimal strings: JSON numbers are exact only up to 2^53 (L12). */

export const storedBytes = z.string().regex(/^[0-9]{1,19}$/);

export const storedSnapshotId = z.string().transform((text, context) => {
  const id = parseSnapshotId(text);
  if (id !== undefined) return id;
  context.addIssue('it is no id of a snapshot');
  return z.NEVER;
});

export const storedContent = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('block') }),
  z.strictObject({ type: z.literal('mount'), fsType: z.enum(filesystemTypes) }),
  z.strictObject({ type: z.literal('directory') }),
]);

export const storedAccessModes = z.array(z.enum(accessModes));

export const storedParameters = z.record(z.string(), z.string());

/**
 * Reads a record that must be complete. Unknown fields are an error: they may be a newer driver's, and would be lost.
 * @throws DataLoss naming the file
 */
export function parseStored<T>(schema: z.ZodType<T>, text: string, where: string): T {
  const parsed = parseJsonInput(schema, text);
  if ('data' in parsed) return parsed.data;
  throw unreadable(where, inOneSentence(parsed.mistakes));
}

export function unreadable(where: string, reason: string): DataLoss {
  return new DataLoss(`The record ${where} cannot be read (${reason}). Its data is left as it is.`);
}

/** The text of a record or note in a file, where people may read it. */
export function indented(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** For tags and labels, which have little room. */
export function compact(json: string): string {
  return JSON.stringify(JSON.parse(json));
}
