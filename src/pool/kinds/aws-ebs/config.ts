import { type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { text } from '../../../settings/values.ts';

/** Options that only pools on EBS have. */
export interface EbsPoolOptions {
  /** The label of the pool's disks in the account; empty only if there is a mistake. */
  readonly poolId: string;
  /** undefined: that of the environment, or of the machine. */
  readonly region: string | undefined;
  /** For volumes whose claim says nothing of zones. */
  readonly zone: string | undefined;
  /** For disks and snapshots, beside the driver's. */
  readonly tags: Readonly<Record<string, string>>;
  /** undefined: AWS's own for the region. */
  readonly endpoint: URL | undefined;
}

const readers = { poolId: label, region: text, zone: text, tags, endpoint };

export const ebsPoolKeys: readonly string[] = Object.keys(readers);

export function readEbsPool(section: SectionReader): EbsPoolOptions {
  const { endpoint: url, poolId, region, tags: extra = {}, zone } = section.readAll(readers);
  if (!section.has('poolId')) {
    section.mistake([], 'needs a poolId: a name for it that no other pool in the account has, such as prod-eu');
  }
  return { poolId: poolId ?? '', region, zone, tags: extra, endpoint: url };
}

function label(value: unknown): string {
  if (typeof value === 'string' && /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value)) return value;
  throw new WrongValue(`must be 1 to 63 lower-case letters, digits and inner dashes, not ${shown(value)}`);
}

function tags(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WrongValue(`must be a section with a text for each tag, not ${shown(value)}`);
  }
  const entries = Object.entries(value).map(([key, tag]: [string, unknown]): [string, string] => {
    if (/^(aws:|holdfast\.dev\/|Name$)/.test(key)) throw new WrongValue('is a tag of AWS or of this driver', [key]);
    if (typeof tag !== 'string') throw new WrongValue(`must be text, not ${shown(tag)}: put it in quotes`, [key]);
    if (key.length > 128 || tag.length > 256) throw new WrongValue('is too long for a tag', [key]);
    return [key, tag];
  });
  if (entries.length > 20) throw new WrongValue('has more than 20 tags');
  return Object.fromEntries(entries);
}

function endpoint(value: unknown): URL {
  if (typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol))
    return new URL(value);
  throw new WrongValue(
    `must be an address such as https://vpce-1.ec2.eu-central-1.vpce.amazonaws.com, not ${shown(value)}`,
  );
}
