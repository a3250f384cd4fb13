import { type SectionReader, WrongValue } from '../../../settings/section.ts';
import { text } from '../../../settings/values.ts';
import { endpointLike, poolId, requirePoolId, textsBy } from '../../cloud-disk/config.ts';

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

const tags = textsBy('tag', (key, tag) => {
  if (/^(aws:|holdfast\.dev\/|Name$)/.test(key)) throw new WrongValue('is a tag of AWS or of this driver', [key]);
  if (key.length > 128 || tag.length > 256) throw new WrongValue('is too long for a tag', [key]);
});
const endpoint = endpointLike('https://vpce-1.ec2.eu-central-1.vpce.amazonaws.com');

const readers = { poolId, region: text, zone: text, tags, endpoint };

export const ebsPoolKeys: readonly string[] = Object.keys(readers);

export function readEbsPool(section: SectionReader): EbsPoolOptions {
  const { endpoint: url, poolId: id = '', region, tags: extra = {}, zone } = section.readAll(readers);
  requirePoolId(section, 'account');
  return { poolId: id, region, zone, tags: extra, endpoint: url };
}
