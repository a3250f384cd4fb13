import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { CloudLabels } from './cloud.ts';

/*
 * Records lie in the labels of the disks that they are of: JSON, compressed, in letters that every cloud takes, in pieces. The
 * first piece begins with the number of pieces and a checksum of all: labels that were written in part are no record.
 */

export interface LabelForm {
  /** The start of the names of pieces: `holdfast.dev/record.`. */
  readonly prefix: string;
  readonly longestValue: number;
  readonly encoding: 'base64url' | 'hex';
}

const headLength = 12;

export function recordLabels({ encoding, longestValue, prefix }: LabelForm, text: string): CloudLabels {
  const body = deflateRawSync(text, { level: 9 }).toString(encoding);
  const count = Math.ceil((headLength + body.length) / longestValue);
  const whole = `${count.toString().padStart(2, '0')}-${checksum(body)}-${body}`;
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `${prefix}${index}`,
      whole.slice(index * longestValue, (index + 1) * longestValue),
    ]),
  );
}

/** @returns undefined if there is none, or not all of it */
export function readRecordLabels({ encoding, prefix }: LabelForm, labels: CloudLabels): string | undefined {
  const [, digits = ''] = /^([0-9]{2})-[0-9a-f]{8}-/.exec(labels[`${prefix}0`] ?? '') ?? [];
  const pieces = Array.from({ length: Number(digits) }, (_, index) => labels[`${prefix}${index}`]);
  if (pieces.length === 0 || pieces.includes(undefined)) return undefined;
  const whole = pieces.join('');
  const body = whole.slice(headLength);
  if (whole.slice(3, headLength - 1) !== checksum(body)) return undefined;
  try {
    return inflateRawSync(Buffer.from(body, encoding), { maxOutputLength: 1 << 20 }).toString('utf8');
  } catch {
    return undefined;
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}
