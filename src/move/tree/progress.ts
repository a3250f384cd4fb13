import { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';

/*
 * A copy of a tree that was cut short goes on at the last place where all before is durable at the target. The source walks the tree again up to that
 * place and reads no data of it. It knows the place by a digest of all records before it, and of the states of their entries:
 * a tree that has changed is copied from its beginning.
 */

/** A place in the pieces of a tree, behind a record that is one. */
export interface TreePlace {
  readonly atBytes: bigint;
  /** The source's own digest. */
  readonly digest: Buffer;
  /** The end of the data that has come of the file in which it is; undefined: it is between two entries. */
  readonly fileBytes?: bigint | undefined;
}

/** The place that the source is asked to go on at. */
export function placeIn({ atBytes, digest, file }: TreeProgress): TreePlace {
  return { atBytes, digest, fileBytes: file?.atBytes };
}

/** The tree is another one before the place at which its copy was cut short. */
export class OtherTree extends Unavailable {}

/** All of the tree before that place is durable at the target, and was compared. */
export interface TreeProgress extends TreePlace {
  /** The bytes that all of it takes. */
  readonly takenBytes: bigint;
  /** The directories that are not complete, from the uppermost on, which has no name. */
  readonly levels: readonly LevelProgress[];
  /** The file whose data has come in part. */
  readonly file?: { readonly name: Buffer; readonly sizeBytes: bigint; readonly atBytes: bigint } | undefined;
}

export interface LevelProgress {
  readonly name: Buffer;
  /** The number of its entries that have come. */
  readonly entries: number;
}

/** The furthest that a copy has come by all tries: each step of it is made once, however often the copy is cut short. */
export class Reached {
  #atBytes = 0n;
  #passed = 0n;
  #isFurther = false;

  /** @param passed the records that the source has passed on its way to that place */
  come({ atBytes }: Pick<TreePlace, 'atBytes'>, passed = 0n): void {
    if (atBytes < this.#atBytes || (atBytes === this.#atBytes && passed <= this.#passed)) return;
    this.#atBytes = atBytes;
    this.#passed = passed;
    this.#isFurther = true;
  }

  /** True if it has come further since this was asked last. */
  takeFurther(): boolean {
    const isFurther = this.#isFurther;
    this.#isFurther = false;
    return isFurther;
  }
}

/** Directories deeper than that are rare, and their names would make each note of the progress long. */
const maxLevels = 64;

const digits = z
  .string()
  .regex(/^[0-9]{1,19}$/)
  .transform(BigInt);
const name = z
  .string()
  .regex(/^([0-9a-f]{2}){0,255}$/)
  .transform((text) => Buffer.from(text, 'hex'));

export const placeDigest = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .transform((text) => Buffer.from(text, 'hex'));

export const storedProgress = z.strictObject({
  atBytes: digits,
  digest: placeDigest,
  takenBytes: digits,
  levels: z
    .array(z.strictObject({ name, entries: z.int().nonnegative() }))
    .min(1)
    .max(maxLevels),
  file: z.strictObject({ name, sizeBytes: digits, atBytes: digits }).optional(),
});

/** False: its note would be long, and an earlier one stays true. */
export function isShort({ levels }: TreeProgress): boolean {
  return levels.length <= maxLevels;
}

export function progressOut({ atBytes, digest, file, levels, takenBytes }: TreeProgress): object {
  return {
    ...{ atBytes: `${atBytes}`, digest: digest.toString('hex'), takenBytes: `${takenBytes}` },
    levels: levels.map((level) => ({ name: level.name.toString('hex'), entries: level.entries })),
    ...(file !== undefined && {
      file: { name: file.name.toString('hex'), sizeBytes: `${file.sizeBytes}`, atBytes: `${file.atBytes}` },
    }),
  };
}
